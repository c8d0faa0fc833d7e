"""Finds loops whose iterations differ evenly according to their text, so that four iterations are
sufficient.

Processing a kernel of 100,000 instructions takes long, and it is translated to only a few loops. If
the text of a body contains no choice (conditions, remainders, elements of lists), only the first
two iterations, one in the middle, and the last one are processed. If their numbers do not grow
evenly, the whole kernel is processed. The result is checked like every kernel.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

_STATEMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.For, ast.Pass)
_CHOOSING = (
    ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
    ast.Dict, ast.Set, ast.Starred, ast.NamedExpr, ast.JoinedStr, ast.Yield, ast.Await,
)  # fmt: skip
_METHODS = ("broadcast_to", "reshape", "astype", "ap")
"""Methods of tensors. Others, such as `append`, may change the effect of a later loop."""
_BUILTINS = ("range", "slice")


def sampled_loops(tree: ast.Module, language: int) -> frozenset[int]:
    """Lines of the loops that need not be processed completely."""
    known = _Known(tree)
    return frozenset(
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.For) and known.is_even(node, language)
    )


class _Known:
    """The values of names in a file."""

    def __init__(self, tree: ast.Module) -> None:
        self._functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
        imports = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
        self._modules = {
            (alias.asname or alias.name).partition(".")[0]
            for node in imports
            for alias in node.names
        }
        self._tensors = self._bound_to_tensors(tree)

    def _bound_to_tensors(self, tree: ast.Module) -> set[str]:
        """Names that always refer to tensors, and parameters, but not lists."""
        found, others = set[str](), set[str]()
        for node in ast.walk(tree):
            if isinstance(node, ast.arg):
                found.add(node.arg)
            elif isinstance(node, ast.Assign):
                names = {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
                made = isinstance(node.value, ast.Call) and self._of_module(node.value.func, set())
                (found if made else others).update(names)
            elif isinstance(node, (ast.For, ast.comprehension)):
                others.update(n.id for n in ast.walk(node.target) if isinstance(n, ast.Name))
        return found - others

    def is_even(self, loop: ast.For, language: int) -> bool:
        """Whether a loop's body makes no choices, and passes no values on by names."""
        if not isinstance(loop.target, ast.Name) or loop.orelse:
            return False
        if isinstance(loop.iter, ast.Call) and "static" in ast.unparse(loop.iter.func):
            return False
        if language == 2 and _handed_on(loop.body):
            return False
        return self._plain(loop.body, {loop.target.id}, ())

    def _plain(self, body: Sequence[ast.stmt], varying: set[str], calls: tuple[str, ...]) -> bool:
        varying = varying | set(_bound(body))
        return all(
            self._plain_statement(statement, varying, calls)
            for top in body
            for statement in _statements(top)
        )

    def _plain_statement(
        self, statement: ast.stmt, varying: set[str], calls: tuple[str, ...]
    ) -> bool:
        if not isinstance(statement, _STATEMENTS + (ast.Return,) * bool(calls)):
            return False
        masks = {
            id(inner)
            for node in ast.walk(statement)
            if isinstance(node, ast.keyword) and node.arg == "mask"
            for inner in ast.walk(node.value)
        }
        for node in _expressions(statement):
            if isinstance(node, _CHOOSING):
                return False
            if isinstance(node, ast.List) and not all(_is_number(n) for n in node.elts):
                return False
            if isinstance(node, ast.Compare) and id(node) not in masks:
                return False
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Mod)):
                names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                if names & varying:
                    return False
            if isinstance(node, ast.Call) and not self._plain_call(node, varying, calls):
                return False
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
                names = {n.id for n in ast.walk(node.slice) if isinstance(n, ast.Name)}
                if names & varying and node.value.id not in self._tensors:
                    return False
        return True

    def _plain_call(self, call: ast.Call, varying: set[str], calls: tuple[str, ...]) -> bool:
        function = call.func
        if isinstance(function, ast.Name):
            name = function.id
            if name in self._functions:
                body = self._functions[name].body
                # A function inside the one that it calls is not followed again.
                return name not in calls and self._plain(body, varying, (*calls, name))
            return name in self._modules or name in _BUILTINS
        if not isinstance(function, ast.Attribute):
            return False
        return self._of_module(function, varying) or function.attr in _METHODS

    def _of_module(self, function: ast.expr, varying: set[str]) -> bool:
        """Whether a function belongs to NKI (or numpy), such as `nl.load`, and is not a method of a
        list."""
        root = function
        while isinstance(root, ast.Attribute):
            root = root.value
        return (
            root is not function
            and isinstance(root, ast.Name)
            and root.id in self._modules - varying
        )


def _is_number(node: ast.expr) -> bool:
    """Whether an expression is a number, as in `axis=[1, -1]`."""
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _statements(top: ast.stmt) -> Iterator[ast.stmt]:
    """A statement and all statements in it."""
    for node in ast.walk(top):
        if isinstance(node, ast.stmt):
            yield node


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement itself, without those of inner statements."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [c for c in ast.iter_child_nodes(node) if not isinstance(c, ast.stmt)]


def _bound(body: Sequence[ast.stmt]) -> Iterator[str]:
    for top in body:
        for node in ast.walk(top):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _handed_on(body: Sequence[ast.stmt]) -> bool:
    """Whether an iteration may read a name that the previous one has assigned."""
    bound, fresh = set(_bound(body)), set[str]()
    for top in body:
        for statement in _statements(top):
            if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
                return True
            names = [n for n in _expressions(statement) if isinstance(n, ast.Name)]
            stored = {n.id for n in names if isinstance(n.ctx, ast.Store)}
            if isinstance(statement, ast.For):
                fresh |= stored
            if {n.id for n in names if isinstance(n.ctx, ast.Load)} & (bound - fresh):
                return True
            fresh |= stored
    return False
