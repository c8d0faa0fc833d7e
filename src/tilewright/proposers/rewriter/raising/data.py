"""What the core computes from elements of arrays of unknown values: sums within two bounds.

`v = sums[x] + bias[c]; if (v > 127) v = 127;` is the sum of two elements, at most 127.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

FAR = 1 << 80
"""A number that is larger than every number in a kernel."""
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class Undecided(Exception):
    """The core computes something other than a sum within bounds, or branches on an element."""


@dataclass(frozen=True, slots=True, order=True)
class Element:
    """A signed integer in an array, with the value that it has after `moment` events of the run."""

    address: int
    bytes: int
    moment: int


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """The sum of some elements, limited to the range from `low` to `high`."""

    terms: tuple[Element, ...]
    low: float = -math.inf
    high: float = math.inf

    def at(self, total: float) -> float:
        """The value if the sum of the elements is `total`."""
        return min(max(total, self.low), self.high)

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest value."""
        most = sum(1 << (8 * term.bytes - 1) for term in self.terms)
        return self.at(-most), self.at(most - len(self.terms))

    @property
    def is_bounded(self) -> bool:
        """Whether a bound may replace the sum."""
        return (self.low, self.high) != (-math.inf, math.inf)

    def __add__(self, other: object) -> Data:
        if isinstance(other, int) and other == 0:
            return self
        if isinstance(other, Data) and not (self.is_bounded or other.is_bounded):
            return Data(tuple(sorted((*self.terms, *other.terms))))
        raise Undecided("the core adds a value that is not an array element to array elements")

    __radd__ = __add__

    def __lt__(self, other: object) -> Test:
        return Test.of(self, "<", other)

    def __le__(self, other: object) -> Test:
        return Test.of(self, "<=", other)

    def __gt__(self, other: object) -> Test:
        return Test.of(self, ">", other)

    def __ge__(self, other: object) -> Test:
        return Test.of(self, ">=", other)

    def __bool__(self) -> bool:
        raise Undecided("the core branches on the value of an array element")


NOTHING = Data(())
"""The sum of no elements: zero."""


def _refused(*_: object) -> NoReturn:
    raise Undecided(
        "the core computes something other than sums, minimums and maximums of array elements"
    )


for _name in (
    *("eq", "ne", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv"),
    *("mod", "rmod", "lshift", "rlshift", "rshift", "rrshift", "and", "rand", "or", "ror", "xor"),
    *("rxor", "neg", "pos", "invert", "int", "float", "index"),
):
    setattr(Data, f"__{_name}__", _refused)


@dataclass(frozen=True, slots=True)
class Test:
    """A comparison of a sum of elements with a number."""

    value: Data
    comparison: str
    bound: int

    @classmethod
    def of(cls, value: Data, comparison: str, bound: object) -> Test:
        """The comparison; `Undecided` unless it is with a whole number."""
        if not isinstance(bound, int):
            raise Undecided("the core compares array elements with one another")
        return cls(value, comparison, bound)

    def holds(self, total: float) -> bool:
        """Whether the comparison is true if the sum of the elements is `total`."""
        return _COMPARISONS[self.comparison](self.value.at(total), self.bound)

    def __bool__(self) -> bool:
        raise Undecided("the core branches on a comparison of an array element")


_Value: TypeAlias = Any


def chosen(test: object, yes: Callable[[], _Value], no: Callable[[], _Value]) -> _Value:
    """The value of `test ? yes : no`. If `test` depends on elements, a sum within bounds."""
    if not isinstance(test, Test):
        return yes() if test else no()
    terms, either, other = test.value.terms, yes(), no()
    bounds = {float(test.bound)}
    for value in (test.value, either, other):
        if isinstance(value, Data):
            if value.terms != terms:
                raise Undecided("the core chooses between different array elements")
            bounds |= {value.low, value.high}
        elif isinstance(value, int):
            bounds.add(value)
        else:
            _refused()

    def result(total: float) -> float:
        taken = either if test.holds(total) else other
        return taken.at(total) if isinstance(taken, Data) else taken

    low, high = result(-FAR), result(FAR)
    found = Data(terms, -math.inf if low == -FAR else low, math.inf if high == FAR else high)
    # Between bounds, both are constant or grow by one. If they are equal around all bounds, they
    # are equal everywhere.
    ends = [b for b in (*bounds, found.low, found.high) if math.isfinite(b)]
    if any(result(e + d) != found.at(e + d) for e in ends for d in (-1, 0, 1)):
        raise Undecided(
            "the core chooses a value by an array element, but not a minimum or maximum"
        )
    return found


def truth(value: object) -> object:
    """The result of a comparison, as 0 or 1 if it does not depend on elements."""
    return value if isinstance(value, Test) else int(bool(value))


def narrowed(value: _Value, bits: int) -> _Value:
    """A value converted to a signed integer of `bits` bits."""
    if isinstance(value, Data):
        low, high = value.range
        if low < -(1 << (bits - 1)) or high >= 1 << (bits - 1):
            raise Undecided(
                "the core converts sums of array elements to a type that is too narrow for them"
            )
        return value
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def short(value: _Value) -> _Value:
    """Refuse an addition of elements in more than 32 bits: sums in local memories have 32 bits."""
    if isinstance(value, Data) and len(value.terms) > 1:
        raise Undecided("the core adds array elements in more than 32 bits")
    return value


WITH_DATA: Mapping[str, object] = {
    "chosen": chosen, "truth": truth, "signed": narrowed, "short": short,
}  # fmt: skip
"""The functions that a translated kernel calls to compute with elements."""
