"""Finds loops whose iterations differ only in numbers that are linear in the loop variable.

Each expression of the body has a kind. Only integers are linear: sums of floats are rounded. The
loop variable may select a region of a tile, but no element of a list, a tuple or a string, because
these may be in any order. It may not index tiles whose axes overlap (`ap` makes them): if two
indices change their signs, the second change may undo the jump of the first. It may not index tiles
that are broadcast: along an axis with step 0, an index that changes its sign does not jump. For the
same reason, the end of a slice with a step is the same in all iterations. The loop variable may not
be an argument of an instruction: a flag `n - 5` is false in one iteration.

The body may contain other loops, conditions and Python's functions of numbers, as long as they use
only values that are the same in all iterations. It may collect tiles in lists that it creates.
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
_CONSTANTS = frozenset({"program_id", "num_programs", "program_ndim", "get_nc_version"})
"""Functions of NKI that return numbers or tuples of numbers, the same in all iterations."""
_OTHER_VIEWS = frozenset({"ap", "broadcast_to"})
"""Methods and functions that make tiles whose axes may overlap or have step 0."""
_SAME_VIEWS = frozenset({"reshape", "expand_dims"})
"""Functions of NKI whose results have the axes of their arguments, which may overlap."""
_VIEWS = _OTHER_VIEWS | _SAME_VIEWS | {"astype"}
"""Methods and functions whose results are views, for which there is no instruction."""
_REMEMBERING = frozenset({"loop_reduce"})
"""Functions of NKI that read what earlier iterations of an outer loop have computed."""
_MODULES = frozenset({"nl", "nisa", "nki", "neuronxcc"})
_NUMERIC = frozenset({"max", "min", "abs", "len", "int", "float", "bool", "divmod", "round"})
"""Functions of Python whose results depend only on their arguments."""
_LOOPS = frozenset({"affine_range", "sequential_range", "static_range"})
_WHOLE = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
"""Operators whose results are integers if their operands are."""
_MOST_TILES = 1000
"""Maximum number of items of a list from outside the loop."""


class _Kind(Enum):
    FIXED = auto()
    """The same in all iterations."""
    NUMBER = auto()
    """An integer that is linear in the loop variable."""
    PLACE = auto()
    """Slices, tuples and lists of such integers."""
    TILE = auto()
    """A tile that the loop variable may index, or another result of a function of NKI."""
    PATTERN = auto()
    """A tile whose axes may overlap or have step 0. The loop variable may not index it."""
    TILES = auto()
    """A list of tiles that the body creates."""


_OPERANDS = (_Kind.FIXED, _Kind.TILE, _Kind.PATTERN)
"""The kinds that an operand of an instruction may have."""


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
        stored = [p.id for p in parts if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Store)]
        self._bound = {*stored, variable}
        self._assigned_once = {name for name in stored if stored.count(name) == 1}
        self._values: dict[str, ast.expr] = {}
        """The expressions of names that are assigned once."""
        self._kinds = {variable: _Kind.NUMBER}
        self._variables: set[str] = {variable}
        """The variables of this loop and of those inside, which are integers."""
        self._used: set[str] = set()
        self._integers: set[str] = set()
        self._tiles: set[str] = set()
        self._lists: set[str] = set()
        self._callers: set[tuple[str, bool]] = set()
        self._numeric: set[str] = set()

    def is_even(self, frame: Frame) -> bool:
        """Whether the names from outside are what they must be."""
        return (
            all(_is_plain(_value(frame, name)) for name in self._used)
            and all(type(_value(frame, name)) is int for name in self._integers)
            and all(_may_index(_value(frame, name)) for name in self._tiles)
            and all(_holds_tiles(_value(frame, name)) for name in self._lists)
            and all(_may_call(_value(frame, name), is_one) for name, is_one in self._callers)
            and all(_is_numeric(_value(frame, name)) for name in self._numeric)
        )

    def read(self, statement: ast.stmt) -> None:
        """Note the kinds of the names that a statement assigns."""
        match statement:
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), "append"), [item], [])) if (
                self._kinds.get(name) is _Kind.TILES
            ):
                self._among(self._kind(item), _Kind.TILE)
                self._require_operand(item)
            case ast.Expr(value):
                self._kind(value)
                self._require_operand(value)
            case ast.Assign(targets, value):
                for target in targets:
                    self._assign(target, value)
            case ast.AugAssign(target, ast.Add(), value) if isinstance(target, ast.Subscript):
                self._kind(value)
                self._kind(target.slice)
                self._require_tile(target.value)
            case ast.For(ast.Name(name), iterable, body, []):
                self._loop(name, iterable, body)
            case ast.If(test, body, otherwise):
                self._among(self._kind(test), _Kind.FIXED)
                self._branches(body, otherwise)
            case ast.Assert(test):
                self._among(self._kind(test), _Kind.FIXED)
            case _:
                raise _UnevenError

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Subscript):
            self._kind(value)
            self._kind(target.slice)
            self._require_tile(target.value)
        elif isinstance(target, ast.Name):
            is_empty = isinstance(value, ast.List) and not value.elts
            if target.id in self._assigned_once:
                self._values[target.id] = value
            self._name(target, _Kind.TILES if is_empty else self._kind(value))
            self._require_operand(value)
        elif isinstance(target, ast.Tuple):
            kinds = [self._kind(value)] * len(target.elts)
            if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                kinds = [self._kind(part) for part in value.elts]
            for part, kind in zip(target.elts, kinds, strict=True):
                self._name(part, self._among(kind, _Kind.FIXED, _Kind.NUMBER))
        else:
            raise _UnevenError

    def _name(self, target: ast.expr, kind: _Kind) -> None:
        if not isinstance(target, ast.Name) or target.id in self._variables:
            raise _UnevenError
        self._kinds[target.id] = kind

    def _loop(self, name: str, iterable: ast.expr, body: list[ast.stmt]) -> None:
        """Note the kinds in a loop inside, whose number of iterations is always the same. What it
        assigns first does not exist after it if it has no iterations."""
        match iterable:
            case ast.Call(ast.Name("range" as function), parts, []):
                self._require_numeric(function)
            case ast.Call(ast.Attribute(value, function), parts, []) if function in _LOOPS:
                self._kind(value)
            case _:
                raise _UnevenError
        for part in parts:
            self._among(self._kind(part), _Kind.FIXED)
        if name in self._kinds:
            raise _UnevenError
        before = dict(self._kinds)
        self._kinds[name] = _Kind.FIXED
        self._variables.add(name)
        self._read_all(body, before)
        self._kinds = before

    def _branches(self, body: list[ast.stmt], otherwise: list[ast.stmt]) -> None:
        """Note the kinds of names that both branches assign."""
        before = dict(self._kinds)
        self._read_all(body, before)
        after, self._kinds = self._kinds, dict(before)
        self._read_all(otherwise, before)
        self._kinds = {n: kind for n, kind in self._kinds.items() if after.get(n) is kind}

    def _read_all(self, body: list[ast.stmt], before: dict[str, _Kind]) -> None:
        """Read statements that may be executed several times or not at all."""
        for statement in body:
            self.read(statement)
        if any(self._kinds.get(name) is not kind for name, kind in before.items()):
            raise _UnevenError

    def _kind(self, node: ast.expr) -> _Kind:
        match node:
            case ast.Constant():
                return _Kind.FIXED
            case ast.Name(name):
                return self._among(self._of_name(name), _Kind.FIXED, _Kind.NUMBER, _Kind.PLACE,
                                   _Kind.TILE, _Kind.PATTERN)  # fmt: skip
            case ast.UnaryOp(ast.USub(), operand):
                return self._among(self._kind(operand), _Kind.FIXED, _Kind.NUMBER, _Kind.TILE)
            case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult(), right):
                return self._of_operation(left, right, is_product=isinstance(node.op, ast.Mult))
            case ast.Subscript(ast.Name(name), index) if self._kinds.get(name) is _Kind.TILES:
                if isinstance(index, ast.Slice):
                    raise _UnevenError  # another list
                self._among(self._kind(index), _Kind.FIXED)
                return _Kind.TILE
            case ast.Subscript(value, index):
                place = self._among(self._kind(index), _Kind.FIXED, _Kind.NUMBER, _Kind.PLACE)
                if place is _Kind.FIXED:
                    return self._among(self._kind(value), *_OPERANDS)
                self._require_tile(value)
                return _Kind.TILE
            case ast.Slice(lower, upper, step):
                if step is not None:
                    self._all_fixed(*(part for part in (upper, step) if part is not None))
                return self._of_parts([part for part in (lower, upper, step) if part is not None])
            case ast.Tuple(parts) | ast.List(parts):
                return self._of_parts(parts)
            case ast.Attribute(value):
                return self._among(self._kind(value), _Kind.FIXED)
            case ast.Call(ast.Attribute(value, name)):
                return self._of_call(node, value, name)
            case ast.Call(ast.Name(name), parts, []):
                self._require_numeric(name)
                return self._all_fixed(*parts)
            case ast.UnaryOp(_, operand):
                return self._all_fixed(operand)
            case ast.BinOp(left, _, right):
                return self._all_fixed(left, right)
            case ast.BoolOp(_, parts):
                return self._all_fixed(*parts)
            case ast.Compare(left, _, parts):
                return self._all_fixed(left, *parts)
            case ast.IfExp(test, yes, no):
                return self._all_fixed(test, yes, no)
            case ast.JoinedStr(parts):
                return self._all_fixed(*parts)
            case ast.FormattedValue(value, _, None):
                return self._all_fixed(value)
        raise _UnevenError

    def _all_fixed(self, *parts: ast.expr) -> _Kind:
        for part in parts:
            self._among(self._kind(part), _Kind.FIXED)
        return _Kind.FIXED

    def _require_numeric(self, name: str) -> None:
        if name in self._bound:
            raise _UnevenError
        self._numeric.add(name)

    def _of_name(self, name: str) -> _Kind:
        if name not in self._bound:
            self._used.add(name)
            return _Kind.FIXED
        if name not in self._kinds:  # the iteration before has assigned it
            raise _UnevenError
        return self._kinds[name]

    def _of_operation(self, left: ast.expr, right: ast.expr, *, is_product: bool) -> _Kind:
        kinds = self._kind(left), self._kind(right)
        if _Kind.NUMBER not in kinds:
            both = {self._among(kind, _Kind.FIXED, _Kind.TILE) for kind in kinds}
            return _Kind.TILE if _Kind.TILE in both else _Kind.FIXED
        for kind in kinds:
            self._among(kind, _Kind.FIXED, _Kind.NUMBER)
        if is_product and _Kind.FIXED not in kinds:
            raise _UnevenError
        for kind, operand in zip(kinds, (left, right), strict=True):
            if kind is _Kind.FIXED:
                self._require_integer(operand)
        return _Kind.NUMBER

    def _of_parts(self, parts: list[ast.expr]) -> _Kind:
        kinds = {self._kind(part) for part in parts}
        for kind in kinds:
            self._among(kind, _Kind.FIXED, _Kind.NUMBER, _Kind.PLACE)
        return _Kind.FIXED if kinds <= {_Kind.FIXED} else _Kind.PLACE

    def _of_call(self, call: ast.Call, value: ast.expr, name: str) -> _Kind:
        if name in _REMEMBERING:
            raise _UnevenError
        root = value
        while isinstance(root, ast.Attribute):
            root = root.value
        is_outside = False
        if isinstance(root, ast.Name) and root.id not in self._bound:
            is_outside = True
            self._callers.add((root.id, value is root and name in _METHODS))
        elif name in _METHODS:
            self._require_tile(value)
        else:
            raise _UnevenError
        if name == "ds":
            return self._of_parts([*call.args, *[k.value for k in call.keywords]])
        for keyword in call.keywords:
            if name == "ap" and keyword.arg == "offset":
                self._among(self._kind(keyword.value), _Kind.FIXED, _Kind.NUMBER)
            else:
                self._among(self._kind(keyword.value), *_OPERANDS)
        for argument in call.args:
            self._among(self._kind(argument), *_OPERANDS)
        if name in _CONSTANTS:
            return _Kind.FIXED
        if name in _OTHER_VIEWS or (is_outside and name in _SAME_VIEWS):
            return _Kind.PATTERN
        return _Kind.TILE

    def _require_operand(self, node: ast.expr) -> None:
        """The loop variable may not select a region here, because no instruction need use it. The
        last iteration then does not show whether those before it are valid."""
        match node:
            case ast.Subscript(value, index) if self._kind(index) is _Kind.FIXED:
                self._require_operand(value)
            case ast.Subscript():
                raise _UnevenError
            case ast.Call(ast.Attribute(value, name), parts) if name in _VIEWS:
                for part in (value, *parts, *[keyword.value for keyword in node.keywords]):
                    self._require_operand(part)

    def _require_tile(self, node: ast.expr) -> None:
        kind = self._kind(node)
        match node:
            case ast.Name(name) if kind is _Kind.FIXED and name not in self._bound:
                self._tiles.add(name)
            case ast.Subscript(ast.Name(name), index) if (
                kind is _Kind.FIXED and name not in self._bound
            ):
                # A slice of a list is another list, whose items the loop variable may select.
                (self._tiles if isinstance(index, ast.Slice) else self._lists).add(name)
            case ast.Subscript(value) if kind is _Kind.FIXED:
                self._require_tile(value)
            case _:
                self._among(kind, _Kind.TILE)

    def _require_integer(self, node: ast.expr) -> None:
        match node:
            case ast.Constant(value) if type(value) is int:
                pass
            case ast.Name(name) if name in self._variables:
                pass
            case ast.Name(name) if name not in self._bound:
                self._integers.add(name)
            case ast.Name(name) if name in self._values:
                self._require_integer(self._values[name])
            case ast.UnaryOp(ast.USub(), operand):
                self._require_integer(operand)
            case ast.BinOp(left, operator, right) if isinstance(operator, _WHOLE):
                self._require_integer(left)
                self._require_integer(right)
            case ast.Call(ast.Name("max" | "min" | "abs"), parts):
                for part in parts:
                    self._require_integer(part)
            case _:
                raise _UnevenError

    @staticmethod
    def _among(kind: _Kind, *allowed: _Kind) -> _Kind:
        if kind not in allowed:
            raise _UnevenError
        return kind


def _is_plain(value: object) -> bool:
    """Whether a value is never changed by reading it, as an object of the kernel's class may be."""
    if type(value) in (list, tuple):
        items: list[object] = value  # type: ignore[assignment]
        return len(items) <= _MOST_TILES and all(type(item) in _VALUES for item in items)
    return type(value) in _VALUES


def _holds_tiles(value: object) -> bool:
    """Whether a value is a tile that the loop variable may index, or a list or a tuple of these."""
    return _may_index(value) or (
        type(value) in (list, tuple) and all(_may_index(item) for item in value)  # type: ignore[attr-defined]
    )


def _may_index(value: object) -> bool:
    """Whether a value is a tile whose axes do not overlap and have no step 0."""
    if type(value) is not View or value.gather is not None or sum(map(bool, value.psteps)) > 1:
        return False
    axes = zip(value.fsteps, value.psteps, value.shape, strict=True)
    reached = 1
    for step, size in sorted((step, size) for step, rows, size in axes if size > 1 and not rows):
        if step < reached:
            return False
        reached = step * size
    return True


def _is_numeric(value: object) -> bool:
    """Whether a value is one of Python's functions of numbers, or `range`."""
    return type(value) is Builtin and (value.name in _NUMERIC or value.name == "range")


def _may_call(value: object, is_method: bool) -> bool:
    """Whether functions of a value are operations of NKI, or methods of a tile."""
    if type(value) is Namespace:
        return value.name.split(".")[0] in _MODULES
    return is_method and type(value) is View


def _value(frame: Frame, name: str) -> object:
    holder = frame.holder(name)
    return None if holder is None else holder.names[name]
