"""Executes the statements of a kernel's file.

The modules that convert parts of Python are imported here, which registers these parts.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.language import (  # noqa: F401
    assignments,
    contexts,
    definitions,
    displays,
    flow,
    matching,
    operators,
    targets,
    texts,
)
from tilewright.targets.trainium.language.classes import Record
from tilewright.targets.trainium.language.conversion import converts, own_nodes, statement
from tilewright.targets.trainium.language.exceptions import raised
from tilewright.targets.trainium.language.flow import bound_names
from tilewright.targets.trainium.language.frames import (
    NEXT,
    Frame,
    Statement,
)
from tilewright.targets.trainium.language.imports import imported
from tilewright.targets.trainium.language.values import MemberSet, Missing
from tilewright.targets.trainium.tiles.dtypes import HostArray

_ENDS = ("too_deep", "too_large", "too_long", "assertion_failed")


def module(nodes: Sequence[ast.stmt], frame: Frame) -> None:
    """Execute a file's statements. A name that a statement cannot define, or whose value it cannot
    change, is reported missing where it is used."""
    for node in nodes:
        frame.run.step()
        try:
            statement(node)(frame)
        except KernelError as error:
            if error.code in _ENDS:
                raise
            frame.run.depth = 0
            if error.code != "import_not_allowed":  # whose error says where the import is
                error.message += f" (line {error.line or node.lineno})"
            for name in bound_names([node]) | _changed_names(node, frame):
                frame.names[name] = Missing(error)


def _changed_names(node: ast.stmt, frame: Frame) -> set[str]:
    """Names of values that a statement changes, by assigning or deleting an attribute or an element
    or by a method of a list or another value of the kernel."""
    found = set()
    for part in own_nodes([node]):
        changes = isinstance(part, ast.Attribute | ast.Subscript) and not isinstance(
            part.ctx, ast.Load
        )
        root: ast.AST = part.func if isinstance(part, ast.Call) else part
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        if not isinstance(root, ast.Name):
            continue
        calls = isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)
        value = frame.names.get(root.id)
        if changes or (calls and isinstance(value, list | dict | MemberSet | Record | HostArray)):
            found.add(root.id)
    return found


@converts(ast.Import, ast.ImportFrom)
def _import(node: ast.Import | ast.ImportFrom) -> Statement:
    found = imported(node)

    def bind(frame: Frame) -> int:
        """A module that kernels cannot use raises its exception only where that may be caught."""
        names = found(frame.run.language)
        lacking = [v.error for v in names.values() if isinstance(v, Missing)]
        if lacking and frame.run.tries:
            error = lacking[0]
            raise raised("ModuleNotFoundError", error.code, error.message, error.line)
        frame.names.update(names)
        return NEXT

    return bind
