"""What names of a C source stand for while it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tilewright.proposers.loops.ir import Binary, Expr, Negative, Number, Type

Interval: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Value:
    """An expression of a C type; `interval` are its least and greatest value, where known.

    A whole number that is `retyped` is printed as an expression of type int of the same value.
    """

    expr: Expr
    type: Type
    interval: Interval | None = None
    retyped: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """A structure whose fields are numbers of one type, which lie one after the other."""

    type: Type
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bundle:
    """A structure of numbers and pointers whose fields nothing changes: each stands for itself.

    Of each field: its name, its type or that of what it points to, and whether it is a pointer.
    """

    fields: tuple[tuple[str, Type, bool], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Those of its fields."""
        return tuple(name for name, _, _ in self.fields)

    @property
    def record(self) -> Record | None:
        """The same with fields that may change, if all are numbers of one type."""
        kinds = {kind for _, kind, _ in self.fields}
        if len(kinds) > 1 or any(pointer for _, _, pointer in self.fields):
            return None
        return Record(self.fields[0][1], self.names)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pointer points: into an array, at some subscripts, `offset` elements further.

    `rank` are the subscripts that an element of the array takes. A pointer to structures has the
    `record`; the array has a subscript more for their fields, or one for all in a row. The place is
    the structure itself, and not a pointer, if it is `whole`.
    """

    array: str
    type: Type
    rank: int
    subscripts: tuple[Expr, ...] = ()
    offset: Value | None = None
    constant: bool = False
    record: Record | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the kernel that is read, under the name it has there."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Unknown:
    """A variable that is followed, but whose value is not known here, and why.

    A pointer has the `place` of nothing, whose type is that of what it points to.
    """

    why: str
    type: Type = "int"
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Pointed:
    """A pointer to one variable that is kept, as functions take where their results go."""

    variable: Variable


Binding: TypeAlias = Value | Place | Variable | Unknown | Pointed | Record | Bundle
"""A variable is kept, or followed: then its value or place stands for it."""


class Scope:
    """Names that are visible; those of inner scopes hide those of outer ones."""

    def __init__(self, outer: Scope | None) -> None:
        self._outer = outer
        self._names: dict[str, Binding] = {}

    def find(self, name: str) -> Binding | None:
        """What a name stands for."""
        if name in self._names or self._outer is None:
            return self._names.get(name)
        return self._outer.find(name)

    def declare(self, name: str, binding: Binding) -> None:
        """A new name, which may hide an outer one."""
        self._names[name] = binding

    def rebind(self, name: str, binding: Binding) -> None:
        """Another value for a variable that is followed."""
        if name in self._names or self._outer is None:
            self._names[name] = binding
        else:
            self._outer.rebind(name, binding)

    def followed(self) -> set[str]:
        """All visible variables that are followed."""
        outer = self._outer.followed() if self._outer is not None else set()
        apart = (Variable, Pointed, Record, Bundle)
        own = {name for name, found in self._names.items() if not isinstance(found, apart)}
        return (outer - set(self._names)) | own


def plus(left: Value | None, right: Value) -> Value:
    """The sum of two whole numbers of known range, numbers in it together."""
    zero = (0, 0)
    if left is None or left.interval == zero:
        return right
    if right.interval == zero:
        return left
    assert left.interval is not None
    assert right.interval is not None
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
    """A whole number of known range, multiplied."""
    assert value.interval is not None
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
    """A whole number."""
    literal = Number(str(abs(value)))
    return Value(literal if value >= 0 else Negative(literal), "int", (value, value))
