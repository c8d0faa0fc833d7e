"""The meaning of names in a C source during parsing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from tilewright.proposers.loops.ir import Binary, Expr, Negative, Number, Type

Interval: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Value:
    """An expression with a C type. `interval` is its smallest and largest value, if known.

    A `retyped` integer is printed as an expression of type int with the same value.
    """

    expr: Expr
    type: Type
    interval: Interval | None = None
    retyped: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """A structure whose fields are numbers of one type, consecutive in memory.

    `shapes` are the sizes of the fields, which are empty for a number. It is empty itself if all
    fields are numbers.
    """

    type: Type
    fields: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...] = ()

    @property
    def size(self) -> int:
        """Number of numbers in the structure."""
        return sum(map(math.prod, self.shapes)) if self.shapes else len(self.fields)

    def field(self, name: str) -> tuple[int, tuple[int, ...]]:
        """The number of numbers before a field, and its sizes."""
        place = self.fields.index(name)
        if not self.shapes:
            return place, ()
        return sum(map(math.prod, self.shapes[:place])), self.shapes[place]


@dataclass(frozen=True, slots=True)
class Bundle:
    """A structure of numbers and pointers, each of whose fields is replaced by its value.

    For each field: its name, its type or the type to which it points, and whether it is a pointer.
    The numbers in `changing` are variables of the kernel instead. `shapes` is as in `Record`; a
    structure with arrays is always used as a record.
    """

    fields: tuple[tuple[str, Type, bool], ...]
    changing: frozenset[str] = frozenset()
    shapes: tuple[tuple[int, ...], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(name for name, _, _ in self.fields)

    @property
    def record(self) -> Record | None:
        """The same structure with fields that can change, if all are numbers of one type."""
        kinds = {kind for _, kind, _ in self.fields}
        if len(kinds) > 1 or any(pointer for _, _, pointer in self.fields):
            return None
        return Record(self.fields[0][1], self.names, self.shapes)


@dataclass(frozen=True, slots=True)
class Place:
    """The target of a pointer: an element of an array, given by subscripts and an `offset` in
    elements.

    `rank` is the number of subscripts of an element of the array. A pointer to structures has a
    `record`; the array then has one more subscript for the field, or a single subscript for
    consecutive numbers. If the place is `whole`, it is the structure itself and not a pointer. A
    pointer to rows of an array with one subscript, such as `float (*x)[64]`, has the sizes of the
    `rows`.
    """

    array: str
    type: Type
    rank: int
    subscripts: tuple[Expr, ...] = ()
    offset: Value | None = None
    constant: bool = False
    record: Record | None = None
    whole: bool = False
    rows: tuple[int, ...] = ()

    @property
    def depth(self) -> int:
        """Subscripts that an expression of the source needs from here to an element."""
        return self.rank - len(self.subscripts) + len(self.rows)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the kernel, with the name that it has there."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Unknown:
    """A variable that is followed, but whose value is not known here, with the reason.

    A pointer has a `place` without an array, which contains the type to which it points.
    """

    why: str
    type: Type = "int"
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Pointed:
    """A pointer to a single kept variable, which functions use to return results, or to a known
    number that is only read through it."""

    variable: Variable | Value


@dataclass(frozen=True, slots=True)
class Callees:
    """A pointer to a function of the file, or a constant table of such pointers."""

    names: tuple[str, ...]


Binding: TypeAlias = Value | Place | Variable | Unknown | Pointed | Record | Bundle | Callees
"""The meaning of a variable: the variable itself if it is kept, or its value or place if it is
followed."""


class Scope:
    """The visible names. Names of inner scopes hide those of outer ones."""

    def __init__(self, outer: Scope | None) -> None:
        self._outer = outer
        self._names: dict[str, Binding] = {}

    def find(self, name: str) -> Binding | None:
        """The meaning of a name."""
        if name in self._names or self._outer is None:
            return self._names.get(name)
        return self._outer.find(name)

    def declare(self, name: str, binding: Binding) -> None:
        """Declare a new name, which may hide an outer one."""
        self._names[name] = binding

    def rebind(self, name: str, binding: Binding) -> None:
        """Assign another value to a variable that is followed."""
        if name in self._names or self._outer is None:
            self._names[name] = binding
        else:
            self._outer.rebind(name, binding)

    def bindings(self) -> dict[str, Binding]:
        """The meanings of all visible names."""
        outer = self._outer.bindings() if self._outer is not None else {}
        return outer | self._names

    def followed(self) -> set[str]:
        """All visible variables that are followed."""
        outer = self._outer.followed() if self._outer is not None else set()
        apart = (Variable, Pointed, Record, Bundle)
        own = {name for name, found in self._names.items() if not isinstance(found, apart)}
        return (outer - set(self._names)) | own


def plus(left: Value | None, right: Value) -> Value:
    """The sum of two integers; if their ranges are known, with their constants added."""
    zero = (0, 0)
    if left is None or left.interval == zero:
        return right
    if right.interval == zero:
        return left
    if left.interval is None or right.interval is None:
        return Value(Binary("+", left.expr, right.expr), "int")
    interval = (left.interval[0] + right.interval[0], left.interval[1] + right.interval[1])
    if interval[0] == interval[1]:
        return number(interval[0])
    expr, added = left.expr, right.interval[0]
    if right.interval[0] != right.interval[1]:
        if isinstance(right.expr, Negative):
            return Value(Binary("-", expr, right.expr.value), "int", interval)
        return Value(Binary("+", expr, right.expr), "int", interval)
    if isinstance(expr, Binary) and expr.operator in "+-" and isinstance(expr.right, Number):
        added += int(expr.right.text) * (1 if expr.operator == "+" else -1)
        expr = expr.left
    if added:
        expr = Binary("+" if added > 0 else "-", expr, Number(str(abs(added))))
    return Value(expr, "int", interval)


def times(value: Value, factor: int) -> Value:
    """An integer, multiplied by a constant."""
    if value.interval is None:
        return Value(Binary("*", value.expr, number(factor).expr), "int")
    least, most = sorted(bound * factor for bound in value.interval)
    if least == most:
        return number(least)
    if factor == 1:
        return Value(value.expr, "int", (least, most))
    if factor < 0:
        positive = times(value, -factor).expr
        return Value(Negative(positive), "int", (least, most))
    return Value(Binary("*", value.expr, Number(str(factor))), "int", (least, most))


def number(value: int) -> Value:
    """An integer."""
    literal = Number(str(abs(value)))
    return Value(literal if value >= 0 else Negative(literal), "int", (value, value))
