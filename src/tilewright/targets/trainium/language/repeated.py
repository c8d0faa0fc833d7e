"""Finds loops whose iterations differ only in numbers that are linear in the loop variable."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from tilewright.targets.trainium.language.frames import Frame
from tilewright.targets.trainium.language.values import Builtin, Namespace
from tilewright.targets.trainium.operations.creation import MemoryName
from tilewright.targets.trainium.operations.functions import Operator
from tilewright.targets.trainium.tiles.dtypes import DType
from tilewright.targets.trainium.tiles.view import View

_NODES = (
    ast.Assign, ast.Expr, ast.Call, ast.keyword, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple,
    ast.Name, ast.Constant, ast.UnaryOp, ast.USub, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.List,
    ast.Load, ast.Store,
)  # fmt: skip
_VALUES = frozenset({View, int, float, bool, str, DType, Operator, MemoryName, Namespace, Builtin})
_METHODS = frozenset({"reshape", "broadcast_to", "ap", "astype"})


def evenness(node: ast.For) -> Callable[[Frame], bool] | None:
    """Says in a frame whether the iterations of a loop differ only in linear numbers; None if the
    text alone shows that they may differ otherwise."""
    if not isinstance(node.target, ast.Name) or node.orelse:
        return None
    parts = [part for statement in node.body for part in ast.walk(statement)]
    if not all(isinstance(part, _NODES) for part in parts):
        return None
    bound = {p.id for p in parts if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Store)}
    if node.target.id in bound or set(_handed_on(node.body, bound)):
        return None
    varying = bound | {node.target.id}
    products = [p for p in parts if isinstance(p, ast.BinOp) and isinstance(p.op, ast.Mult)]
    if any(_names(p.left) & varying and _names(p.right) & varying for p in products):
        return None
    calls = [part.func for part in parts if isinstance(part, ast.Call)]
    if not all(_is_operation(function, varying) for function in calls):
        return None
    used = frozenset(name for p in parts for name in _names(p)) - varying

    def is_even(frame: Frame) -> bool:
        return all(type(_value(frame, name)) in _VALUES for name in used)

    return is_even


def _is_operation(function: ast.expr, varying: set[str]) -> bool:
    """Whether a called function is that of a module, or a method of a tile."""
    if not isinstance(function, ast.Attribute):
        return False
    root: ast.expr = function
    while isinstance(root, ast.Attribute):
        root = root.value
    if isinstance(root, ast.Name) and root.id not in varying:
        return True
    return function.attr in _METHODS


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _handed_on(body: list[ast.stmt], bound: set[str]) -> Iterator[str]:
    """Names that an iteration reads before it assigns them."""
    ready: set[str] = set()
    for statement in body:
        stored = {
            part.id
            for part in ast.walk(statement)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        }
        loaded = {
            part.id
            for part in ast.walk(statement)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)
        }
        yield from loaded & (bound - ready)
        ready |= stored


def _value(frame: Frame, name: str) -> object:
    here: Frame | None = frame
    while here is not None:
        if name in here.names:
            return here.names[name]
        here = here.outer
    return None
