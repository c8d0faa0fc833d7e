"""Finds loops whose iterations differ only in numbers that are linear in the loop variable.

Each expression of the body has a kind. Only integers are linear: sums of floats are rounded. The
loop variable may select a region of a tile, but no element of a list, a tuple or a string, because
these may be in any order. Only functions of NKI may be called: others, such as those of `operator`,
compute numbers that are not linear.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from enum import Enum, auto

from tilewright.targets.trainium.language.frames import Frame
from tilewright.targets.trainium.language.values import Builtin, Namespace
from tilewright.targets.trainium.operations.creation import MemoryName
from tilewright.targets.trainium.operations.functions import Operator
from tilewright.targets.trainium.tiles.dtypes import DType
from tilewright.targets.trainium.tiles.view import View

_VALUES = frozenset({View, int, float, bool, str, DType, Operator, MemoryName, Namespace, Builtin})
_METHODS = frozenset({"reshape", "broadcast_to", "ap", "astype"})
_MODULES = frozenset({"nl", "nisa", "nki", "neuronxcc"})


class _Kind(Enum):
    FIXED = auto()
    """The same in all iterations."""
    NUMBER = auto()
    """An integer that is linear in the loop variable."""
    PLACE = auto()
    """Slices, tuples and lists of such integers."""
    TILE = auto()


class _UnevenError(Exception):
    """The text of a body does not show that its iterations are alike."""


def evenness(node: ast.For) -> Callable[[Frame], bool] | None:
    """Says in a frame whether the iterations of a loop differ only in linear numbers; None if the
    text alone shows that they may differ otherwise."""
    if not isinstance(node.target, ast.Name) or node.orelse:
        return None
    body = _Body(node.target.id, node.body)
    try:
        for statement in node.body:
            body.read(statement)
    except _UnevenError:
        return None
    return body.is_even


class _Body:
    """The kinds of a body's names, and what the names from outside it must be."""

    def __init__(self, variable: str, statements: list[ast.stmt]) -> None:
        parts = (part for statement in statements for part in ast.walk(statement))
        self._bound = {
            p.id for p in parts if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Store)
        } | {variable}
        self._kinds = {variable: _Kind.NUMBER}
        self._used: set[str] = set()
        self._integers: set[str] = set()
        self._tiles: set[str] = set()
        self._callers: set[tuple[str, bool]] = set()
        self._variable = variable

    def is_even(self, frame: Frame) -> bool:
        """Whether the names from outside are what they must be."""
        return (
            all(type(_value(frame, name)) in _VALUES for name in self._used)
            and all(type(_value(frame, name)) is int for name in self._integers)
            and all(type(_value(frame, name)) is View for name in self._tiles)
            and all(_may_call(_value(frame, name), is_one) for name, is_one in self._callers)
        )

    def read(self, statement: ast.stmt) -> None:
        """Note the kinds of the names that a statement assigns."""
        if isinstance(statement, ast.Expr):
            self._kind(statement.value)
            return
        if isinstance(statement, ast.AugAssign):
            self._add(statement)
            return
        if not isinstance(statement, ast.Assign):
            raise _UnevenError
        kind = self._kind(statement.value)
        for target in statement.targets:
            if isinstance(target, ast.Name) and target.id != self._variable:
                self._kinds[target.id] = kind
            elif isinstance(target, ast.Subscript):
                self._kind(target.slice)
                self._require_tile(target.value)
            else:
                raise _UnevenError

    def _add(self, statement: ast.AugAssign) -> None:
        """Note `tile[...] += value`."""
        target = statement.target
        if not (isinstance(statement.op, ast.Add) and isinstance(target, ast.Subscript)):
            raise _UnevenError
        self._kind(statement.value)
        self._kind(target.slice)
        self._require_tile(target.value)

    def _kind(self, node: ast.expr) -> _Kind:
        match node:
            case ast.Constant():
                return _Kind.FIXED
            case ast.Name(name):
                return self._of_name(name)
            case ast.UnaryOp(ast.USub(), operand):
                return self._among(self._kind(operand), _Kind.FIXED, _Kind.NUMBER, _Kind.TILE)
            case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult(), right):
                return self._of_operation(left, right, is_product=isinstance(node.op, ast.Mult))
            case ast.Subscript(value, index):
                if self._kind(index) is _Kind.FIXED:
                    return self._among(self._kind(value), _Kind.FIXED, _Kind.TILE)
                self._require_tile(value)
                return _Kind.TILE
            case ast.Slice(lower, upper, step):
                return self._of_parts([part for part in (lower, upper, step) if part is not None])
            case ast.Tuple(parts) | ast.List(parts):
                return self._of_parts(parts)
            case ast.Attribute(value):
                return self._among(self._kind(value), _Kind.FIXED)
            case ast.Call(ast.Attribute(value, name)):
                return self._of_call(node, value, name)
        raise _UnevenError

    def _of_name(self, name: str) -> _Kind:
        if name not in self._bound:
            self._used.add(name)
            return _Kind.FIXED
        if name not in self._kinds:  # the iteration before has assigned it
            raise _UnevenError
        return self._kinds[name]

    def _of_operation(self, left: ast.expr, right: ast.expr, *, is_product: bool) -> _Kind:
        kinds = self._kind(left), self._kind(right)
        if _Kind.PLACE in kinds:
            raise _UnevenError
        if _Kind.TILE in kinds or _Kind.NUMBER not in kinds:
            return _Kind.TILE if _Kind.TILE in kinds else _Kind.FIXED
        if is_product and _Kind.FIXED not in kinds:
            raise _UnevenError
        for kind, operand in zip(kinds, (left, right), strict=True):
            if kind is _Kind.FIXED:
                self._require_integer(operand)
        return _Kind.NUMBER

    def _of_parts(self, parts: list[ast.expr]) -> _Kind:
        kinds = {self._kind(part) for part in parts}
        if _Kind.TILE in kinds:
            raise _UnevenError
        return _Kind.FIXED if kinds <= {_Kind.FIXED} else _Kind.PLACE

    def _of_call(self, call: ast.Call, value: ast.expr, name: str) -> _Kind:
        root = value
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id not in self._bound:
            self._callers.add((root.id, value is root and name in _METHODS))
            kinds = set()
        elif name in _METHODS:
            self._require_tile(value)
            kinds = {_Kind.TILE}
        else:
            raise _UnevenError
        kinds |= {self._kind(a) for a in (*call.args, *[k.value for k in call.keywords])}
        if kinds <= {_Kind.FIXED} or _Kind.TILE in kinds:
            return _Kind.TILE
        if name == "ds":
            return _Kind.PLACE
        raise _UnevenError  # a function of numbers

    def _require_tile(self, node: ast.expr) -> None:
        kind = self._kind(node)
        if kind is _Kind.FIXED and isinstance(node, ast.Subscript):
            self._require_tile(node.value)
        elif kind is _Kind.FIXED and isinstance(node, ast.Name):
            self._tiles.add(node.id)
        else:
            self._among(kind, _Kind.TILE)

    def _require_integer(self, node: ast.expr) -> None:
        match node:
            case ast.Constant(value) if type(value) is int:
                pass
            case ast.Name(name):
                self._integers.add(name)
            case ast.UnaryOp(_, operand):
                self._require_integer(operand)
            case ast.BinOp(left, _, right):
                self._require_integer(left)
                self._require_integer(right)
            case _:
                raise _UnevenError

    @staticmethod
    def _among(kind: _Kind, *allowed: _Kind) -> _Kind:
        if kind not in allowed:
            raise _UnevenError
        return kind


def _may_call(value: object, is_method: bool) -> bool:
    """Whether functions of a value are operations of NKI, or methods of a tile."""
    if type(value) is Namespace:
        return value.name.split(".")[0] in _MODULES
    return is_method and type(value) is View


def _value(frame: Frame, name: str) -> object:
    holder = frame.holder(name)
    return None if holder is None else holder.names[name]
