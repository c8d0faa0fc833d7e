"""Bounds of a function of a sum: its smallest and largest value for all sums in a range."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from itertools import product
from typing import TypeAlias

from tilewright.proposers.rewriter.raising.data import SUM, Tree, offset_of
from tilewright.proposers.rewriter.raising.translation.runtime import divided, signed

Range: TypeAlias = tuple[int, int]


def bounds(tree: Tree, low: int, high: int) -> Range:
    """A range that contains the values of a function for all sums from `low` to `high`.

    For a single sum, it contains only the value for this sum.
    """
    if not isinstance(tree, tuple):
        return (low, high) if tree == SUM else (tree, tree)
    name, first, *others = tree
    if name == "where":
        cases = zip(others, _cases(first, low, high), strict=True)
        found = [bounds(value, *sums) for value, sums in cases if sums[0] <= sums[1]]
        return min(f[0] for f in found), max(f[1] for f in found)
    one = bounds(first, low, high)
    if name == "signed":
        return _signed(one, others[0])
    return _BOUNDS[name](one, *(bounds(o, low, high) for o in others))


def _cases(test: Tree, low: int, high: int) -> tuple[Range, Range]:
    """The sums from `low` to `high` for which a test may hold, and those for which it may not
    hold. A range whose end is below its start is empty."""
    whole, none = (low, high), (0, -1)
    found = bounds(test, low, high)
    if 0 not in range(found[0], found[1] + 1):
        return whole, none
    if found == (0, 0):
        return none, whole
    match test:
        case (("lt" | "ge") as name, value, int(limit)) if (added := offset_of(value)) is not None:
            last = limit - added - 1
        case (("le" | "gt") as name, value, int(limit)) if (added := offset_of(value)) is not None:
            last = limit - added
        case _:
            return whole, whole
    below, above = (low, min(high, last)), (max(low, last + 1), high)
    return (below, above) if name in ("lt", "le") else (above, below)


def _corners(operation: Callable[..., int]) -> Callable[..., Range]:
    """Bounds of an operation that is monotone in each operand."""

    def computed(*operands: Range) -> Range:
        found = [operation(*some) for some in product(*operands)]
        return min(found), max(found)

    return computed


def _signed(one: Range, bits: int) -> Range:
    half = 1 << (bits - 1)
    if (one[0] + half) >> bits == (one[1] + half) >> bits:
        return signed(one[0], bits), signed(one[1], bits)
    return -half, half - 1


def _less(one: Range, other: Range) -> Range:
    return int(one[1] < other[0]), int(one[0] < other[1])


def _less_or_equal(one: Range, other: Range) -> Range:
    return int(one[1] <= other[0]), int(one[0] <= other[1])


def _equal(one: Range, other: Range) -> Range:
    meet = one[0] <= other[1] and other[0] <= one[1]
    return int(one[0] == one[1] == other[0] == other[1]), int(meet)


def _unequal(one: Range, other: Range) -> Range:
    low, high = _equal(one, other)
    return 1 - high, 1 - low


def _quotient(left: int, right: int) -> int:
    return divided(left, right) if right else 0


def _divided(one: Range, other: Range) -> Range:
    if other[0] > 0 or other[1] < 0:
        return _corners(_quotient)(one, other)
    most = 0 if other == (0, 0) else max(map(abs, one))
    return -most, most


def _rest(one: Range, other: Range) -> Range:
    if one[0] == one[1] and other[0] == other[1]:
        exact = one[0] - other[0] * _quotient(one[0], other[0])
        return exact, exact
    most = max(map(abs, one))
    if other[0] > 0 or other[1] < 0:
        most = min(most, max(map(abs, other)) - 1)
    return -most if one[0] < 0 else 0, most if one[1] > 0 else 0


def _of_bits(operation: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    """Bounds of an operation on bits."""

    def computed(one: Range, other: Range) -> Range:
        if one[0] == one[1]:
            one, other = other, one
        if other[0] == other[1] and _is_monotone(operation, one, other[0]):
            return _corners(operation)(one, other)
        reach = 1 << max(n.bit_length() for n in (*one, *other))
        positive = [o for o in (one, other) if o[0] >= 0]
        if operation is operator.and_ and positive:
            return 0, min(o[1] for o in positive)
        return 0 if len(positive) > 1 else -reach, reach - 1

    return computed


def _is_monotone(operation: Callable[[int, int], int], one: Range, mask: int) -> bool:
    """Whether an operation with a mask is known to be monotone in a range: the range is a single
    number, the mask has no or all bits, or keeps low bits of numbers whose high bits are equal."""
    if one[0] == one[1] or mask in (0, -1):
        return True
    bits = mask.bit_length()
    keeps_low = operation is operator.and_ and mask == (1 << bits) - 1
    return keeps_low and one[0] >> bits == one[1] >> bits


_BOUNDS: Mapping[str, Callable[..., Range]] = {
    "add": _corners(operator.add), "sub": _corners(operator.sub), "mul": _corners(operator.mul),
    "neg": _corners(operator.neg), "invert": _corners(operator.invert),
    "rshift": _corners(operator.rshift), "lshift": _corners(operator.lshift),
    "and": _of_bits(operator.and_), "or": _of_bits(operator.or_), "xor": _of_bits(operator.xor),
    "lt": _less, "le": _less_or_equal, "gt": lambda a, b: _less(b, a),
    "ge": lambda a, b: _less_or_equal(b, a), "eq": _equal, "ne": _unequal,
    "divided": _divided, "rest": _rest,
}  # fmt: skip
"""The bounds of the result of each operation, for ranges of its operands."""
