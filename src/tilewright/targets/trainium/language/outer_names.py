"""Names that a function assigns outside of itself: `nonlocal` and `global`."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.language.conversion import converts, own_nodes
from tilewright.targets.trainium.language.frames import NEXT, Frame, Statement


class OuterName(ast.expr):
    """The target of an assignment to a name of the file (`is_global`) or of an enclosing
    function."""

    _fields = ("id",)
    id: str
    is_global: bool
    lineno: int

    def home(self, frame: Frame) -> Frame:
        """The frame that has the name."""
        here = frame.outer
        while here is not None:
            outer = here.outer
            if self.is_global:
                if outer is None or outer.outer is None:  # only the names that every kernel has
                    return here
            elif self.id in here.names:
                return here
            here = outer
        raise KernelError(
            "undefined_name", f"no enclosing function defines {self.id!r}", self.lineno
        )


class _Replacing(ast.NodeTransformer):
    def __init__(self, declared: Mapping[str, bool]) -> None:
        self._declared = declared

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Store) or node.id not in self._declared:
            return node
        found = ast.copy_location(OuterName(), node)
        found.id, found.is_global = node.id, self._declared[node.id]
        return found

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node  # it has names of its own

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return node


def mark_outer_names(body: list[ast.stmt]) -> None:
    """Replace the names that a function's body assigns outside of it by `OuterName`."""
    declared: dict[str, bool] = {}
    for node in own_nodes(body):
        if isinstance(node, (ast.Nonlocal, ast.Global)):
            declared.update(dict.fromkeys(node.names, isinstance(node, ast.Global)))
    if declared:
        replacing = _Replacing(declared)
        body[:] = [replacing.visit(node) for node in body]


@converts(ast.Nonlocal, ast.Global)
def _declaration(node: ast.Nonlocal | ast.Global) -> Statement:
    return lambda frame: NEXT
