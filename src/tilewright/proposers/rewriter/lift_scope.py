"""What C names stand for while a kernel is lifted: symbolic values, and the scopes that hold them.

A scope shares its variables' values with the scopes around it, so that an assignment reaches the
variable it means; `branch` gives a copy for one side of an `if`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tree_sitter import Node

from tilewright.proposers.rewriter.expr import (
    Expr,
    Remainder,
    Var,
    bounds,
    minimum,
    remainder,
)
from tilewright.proposers.rewriter.ir import Array, Compare, Condition, Flag, Local, Text


@dataclass(frozen=True, slots=True)
class Pointer:
    """The address of an element; adding to it steps along dimension `axis`, None for no step."""

    array: str
    index: tuple[Expr, ...]
    axis: int | None


@dataclass(frozen=True, slots=True)
class Flags:
    """Address bits without an address; none is the integer 0."""

    flags: tuple[Flag, ...]


@dataclass(frozen=True, slots=True)
class Truth:
    """1 where a condition holds, else 0."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Table:
    """A constant local array."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A structure held by value: what each of its fields holds, if that is known."""

    fields: tuple[tuple[str, Value | None], ...]

    def get(self, name: str) -> Value | None:
        """What a field holds."""
        return dict(self.fields).get(name)

    def with_field(self, name: str, value: Value) -> Record:
        """The structure after an assignment to a field."""
        return Record(tuple((n, value if n == name else v) for n, v in self.fields))


Value: TypeAlias = "Expr | Local | Pointer | Flags | Truth | Table | Record | Text"

_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "<": int.__lt__,
    "<=": int.__le__,
    ">": int.__gt__,
    ">=": int.__ge__,
    "==": int.__eq__,
    "!=": int.__ne__,
}
NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


class NotModelled(Exception):
    """This code stays text; the message says why."""


@dataclass
class Scope:
    """Names in scope. `slots` says which variable a name means, `state` what each holds now."""

    arrays: dict[str, Array]
    functions: Mapping[str, Node] = field(default_factory=dict)
    records: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    state: dict[int, Value] = field(default_factory=dict)
    loops: frozenset[str] = frozenset()
    count: list[int] = field(default_factory=lambda: [0])

    def inner(self) -> Scope:
        """A nested scope; what is declared there does not leave it."""
        return replace(self, slots=dict(self.slots))

    def branch(self) -> Scope:
        """A nested scope with values of its own."""
        return replace(self, slots=dict(self.slots), state=dict(self.state))

    def function(self, outermost: Scope) -> Scope:
        """The scope of a called function: names of the file, values of the caller."""
        return replace(self, slots=dict(outermost.slots))

    def declare(self, name: str, value: Value | None) -> None:
        """A new variable, which may not have a value yet."""
        self.count[0] += 1
        self.slots[name] = self.count[0]
        if value is not None:
            self.state[self.count[0]] = value

    def get(self, name: str) -> Value | None:
        """What a variable holds; None if there is none or its value is not known."""
        slot = self.slots.get(name)
        return None if slot is None else self.state.get(slot)

    def assign(self, name: str, value: Value) -> None:
        """A new value for a declared variable."""
        if name not in self.slots:
            raise NotModelled(f"assignment to {name}, which is not declared here")
        self.state[self.slots[name]] = value

    def merge(self, condition: Condition, yes: Scope, no: Scope) -> None:
        """The values after an `if`; a variable whose value no expression holds is forgotten."""
        for slot in list(self.state):
            first, second = yes.state.get(slot), no.state.get(slot)
            if first is None or second is None:
                del self.state[slot]
                continue
            try:
                self.state[slot] = choice(condition, first, second)
            except NotModelled:
                del self.state[slot]


def choice(condition: Condition, first: Value, second: Value) -> Value:
    """`condition ? first : second` where that is a minimum, a maximum, a turn or a flag."""
    holds = decided(condition)
    if holds is not None or first == second:
        return second if holds is False else first
    if isinstance(first, Local) and isinstance(second, Local) and first.space == second.space:
        if first.row == second.row:
            flags = _flag_choice(condition, first.flags, second.flags)
            return Local(first.space, first.row, flags)
        if first.flags == second.flags:
            return Local(first.space, _number_choice(condition, first.row, second.row), first.flags)
    if (
        isinstance(first, Pointer)
        and isinstance(second, Pointer)
        and (first.array, first.axis) == (second.array, second.axis)
    ):
        pairs = zip(first.index, second.index, strict=True)
        index = tuple(_number_choice(condition, a, b) for a, b in pairs)
        return Pointer(first.array, index, first.axis)
    flags_of = [_as_flags(v) for v in (first, second)]
    if flags_of[0] is not None and flags_of[1] is not None and (flags_of[0] or flags_of[1]):
        return Flags(_flag_choice(condition, flags_of[0], flags_of[1]))
    if isinstance(first, Expr) and isinstance(second, Expr):
        try:
            return _number_choice(condition, first, second)
        except NotModelled:
            if (first, second) == (Expr(1), Expr(0)):
                return Truth(condition)
            if (first, second) == (Expr(0), Expr(1)):
                return Truth(negated(condition))
            raise
    if isinstance(first, Truth) and second == Expr(0):
        return Truth(condition + first.condition)
    raise NotModelled("conditional expression that is no minimum")


def decided(condition: Condition) -> bool | None:
    """Whether a condition on constants holds; None for one that depends on variables."""
    if all(c.left.is_const and c.right.is_const for c in condition):
        return all(_COMPARE[c.op](c.left.const, c.right.const) for c in condition)
    return None


def negated(condition: Condition) -> Condition:
    """The opposite of one comparison; `NotModelled` for several."""
    if len(condition) != 1:
        raise NotModelled("the opposite of several conditions")
    compare = condition[0]
    return (Compare(NEGATED[compare.op], compare.left, compare.right),)


def _as_flags(value: Value) -> tuple[Flag, ...] | None:
    if isinstance(value, Flags):
        return value.flags
    return () if value == Expr(0) else None


def _flag_choice(
    condition: Condition, first: tuple[Flag, ...], second: tuple[Flag, ...]
) -> tuple[Flag, ...]:
    both = tuple(f for f in first if f in second)
    only = tuple(Flag(f.name, condition + f.when) for f in first if f not in both)
    rest = [f for f in second if f not in both]
    other = tuple(Flag(f.name, negated(condition) + f.when) for f in rest)
    return both + only + other


def _number_choice(condition: Condition, first: Expr, second: Expr) -> Expr:
    if first == second:
        return first
    if len(condition) == 1:
        compare = condition[0]
        distance = compare.left - compare.right
        for found in (
            _extreme(compare.op, distance, first, second),
            _wrapped(compare.op, distance, first, second),
            _turn(compare.op, distance, first, second),
        ):
            if found is not None:
                return found
    raise NotModelled("conditional expression that is no minimum")


def _extreme(op: str, distance: Expr, first: Expr, second: Expr) -> Expr | None:
    """`a < b ? a : b` and its forms."""
    if op not in ("<", "<=", ">", ">="):
        return None
    if op in (">", ">="):
        distance = distance * -1
    apart = first - second
    if apart == distance:  # the first is chosen where it is less
        return minimum(first, second)
    if apart == distance * -1:
        return minimum(first * -1, second * -1) * -1
    # Integers: `a < b + 1` chooses as `a <= b`, and at a tie both are the same.
    if apart == distance + (1 if op in ("<", ">") else -1):
        return minimum(first, second)
    return None


def _wrapped(op: str, distance: Expr, first: Expr, second: Expr) -> Expr | None:
    """`x == n ? 0 : x` as a remainder, for an x that never exceeds n."""
    if op in ("<", "!="):
        first, second = second, first
    elif op not in (">=", "=="):
        return None
    size = second - distance
    if first != Expr(0) or not size.is_const or size.const < 1:
        return None
    low, high = bounds(second, {})
    if not (low >= 0 and high <= size.const) and not is_marked(second):
        return None
    return remainder(second, size.const)


def _turn(op: str, distance: Expr, first: Expr, second: Expr) -> Expr | None:
    """`e % 2 ? a : b` as `b + (a - b) * (e % 2)`."""
    apart = first - second
    if not apart.is_const or op not in ("==", "!="):
        return None
    for shift, when in ((0, "!="), (1, "==")):
        bit = distance + shift
        if len(bit.terms) == 1 and bit.const == 0 and bit.terms[0][1] == 1:
            atom = bit.terms[0][0]
            if isinstance(atom, Remainder) and atom.by == 2:
                base, slope = (second, apart) if op == when else (first, apart * -1)
                return base + bit * slope.const
    return None


MARK = "@"
"""Ends the name of a variable that stands for a value at the head of an unknown iteration."""


def is_marked(expr: Expr) -> bool:
    """Whether a value is such a variable, up to a constant."""
    return len(expr.terms) == 1 and all(
        isinstance(a, Var) and a.name.endswith(MARK) for a, _ in expr.terms
    )
