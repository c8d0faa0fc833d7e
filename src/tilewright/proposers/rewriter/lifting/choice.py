"""Conditions on symbolic values, and choices between two values as single expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.proposers.rewriter.expr import (
    Bounds,
    Expr,
    bounds,
    minimum,
    remainder,
)
from tilewright.proposers.rewriter.ir import Compare, Condition, Flag, Local, Text
from tilewright.proposers.rewriter.lifting.symbolic_values import (
    Either,
    Flags,
    NotModelled,
    Pointer,
    Truth,
    Value,
    is_marked,
)

_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "<": int.__lt__,
    "<=": int.__le__,
    ">": int.__gt__,
    ">=": int.__ge__,
    "==": int.__eq__,
    "!=": int.__ne__,
}
NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def choice(condition: Condition, first: Value, second: Value) -> Value:
    """`condition ? first : second` as an expression, if it is a minimum, a maximum, an alternation
    or a flag."""
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
    if isinstance(first, Local | Text) and isinstance(second, Local | Text):
        return Either(condition, first, second)
    raise NotModelled("a conditional expression is not a minimum or maximum")


def settled(value: Value, ranges: Mapping[str, Bounds]) -> Value:
    """A number as a constant if its smallest and largest value are equal, as of the size of a tile
    in a loop without a partial last tile."""
    if not isinstance(value, Expr):
        return value
    low, high = bounds(value, ranges)
    return Expr(int(low)) if low == high else value


def as_number(truth: Truth) -> Expr:
    """A condition as the number 1 or 0, for arithmetic."""
    return _number_choice(truth.condition, Expr(1), Expr(0))


def decided(condition: Condition) -> bool | None:
    """Whether a condition on constants is true; None if it depends on variables."""
    if all(c.left.is_const and c.right.is_const for c in condition):
        return all(_COMPARE[c.op](c.left.const, c.right.const) for c in condition)
    return None


def negated(condition: Condition) -> Condition:
    """The negation of one comparison; `NotModelled` for several."""
    if len(condition) != 1:
        raise NotModelled("several conditions are negated together")
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
            _threshold(compare.op, distance, first, second),
        ):
            if found is not None:
                return found
    raise NotModelled("a conditional expression is not a minimum or maximum")


def _extreme(op: str, distance: Expr, first: Expr, second: Expr) -> Expr | None:
    """`a < b ? a : b` and its forms."""
    if op not in ("<", "<=", ">", ">="):
        return None
    if op in (">", ">="):
        distance = distance * -1
    apart = first - second
    if apart == distance:  # the first one is chosen if it is smaller
        return minimum(first, second)
    if apart == distance * -1:
        return minimum(first * -1, second * -1) * -1
    # For integers, `a < b + 1` is `a <= b`, and for equal values both choices are the same.
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
    # A variable that counts up reaches n only if n is a multiple of its step.
    counts = is_marked(second) and (second.const == 0 or size.const % second.const == 0)
    if not (low >= 0 and high <= size.const) and not counts:
        return None
    return remainder(second, size.const)


def _turn(op: str, distance: Expr, first: Expr, second: Expr) -> Expr | None:
    """`e % 2 ? a : b` as `b + (a - b) * (e % 2)`, and other tests of values that are 0 or 1."""
    apart = first - second
    if not apart.is_const or len(distance.terms) != 1:
        return None
    atom, factor = distance.terms[0]
    bit = Expr(0, ((atom, 1),))
    if bounds(bit, {}) != (0, 1):
        return None
    at_zero, at_one = (_COMPARE[op](distance.const + n, 0) for n in (0, factor))
    if at_zero == at_one:
        return first if at_zero else second
    return second + bit * apart.const if at_one else first - bit * apart.const


def _threshold(op: str, distance: Expr, first: Expr, second: Expr) -> Expr | None:
    """`x < n ? a : b` for two constants: a step of `a - b` as a minimum and a maximum."""
    apart = first - second
    if not apart.is_const or op not in ("<", "<=", ">", ">="):
        return None
    if op in ("<", "<="):  # for integers, x < y is the negation of x >= y
        first, second, apart = second, first, apart * -1
    reached = distance + (1 if op in (">=", "<") else 0)
    below = minimum(reached, Expr(1))  # 1 if it is true, 0 or less if not
    return second + minimum(below * -1, Expr(0)) * -apart.const
