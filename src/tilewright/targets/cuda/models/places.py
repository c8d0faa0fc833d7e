"""Where a kernel reads arrays: the place of an element as a function of the place that is computed.

x.transpose(0, 1)          place / 3 % 5 + place % 3 * 5
x[:, 2:]                   place / 4 * 6 + place % 4 + 2
F.pad(x, (1, 1))           place / 6 * 4 + place % 6 - 1, only where 0 <= place % 6 - 1 < 4

Views of views are composed, so that no kernel only moves elements. All numbers are given for the
problem's own sizes and for those of the check on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

Size = tuple[int, int]
"""A number at the problem's own sizes, and at the sizes of the check on the CPU."""
Shape = tuple[Size, ...]
FLOAT, WHOLE = "float", "int64_t"
"""The types of elements in C. Integers are only compared and counted, up to 2^24."""
ONE: Size = (1, 1)
ZERO: Size = (0, 0)
COMPUTED = "place"
"""The variable of the place that is computed."""
_MOST_TERMS = 40


class OtherError(Exception):
    """Why none of tilewright's kernels computes a model, as a clause."""


@dataclass(frozen=True)
class Term:
    """The number `of / inner % extent * times`; without an extent, `of / inner * times`.

    `of` is a variable of the kernel, another index, or an integer that the kernel reads.
    """

    of: str | Index | Element = COMPUTED
    inner: Size = ONE
    extent: Size | None = None
    times: Size = ONE


@dataclass(frozen=True)
class Index:
    """The sum of terms and a number."""

    terms: tuple[Term, ...]
    offset: Size = ZERO


PLACE = Index((Term(),))


@dataclass(frozen=True)
class Inside:
    """Whether an index is at least 0, less than `extent` times `step`, and a multiple of `step`."""

    index: Index
    extent: Size
    step: Size = ONE


@dataclass(frozen=True)
class Element:
    """An element of an array, or another number unless all conditions hold. `kind` is the C type
    of the array's elements."""

    array: str
    shape: Shape
    index: Index = PLACE
    inside: tuple[Inside, ...] = ()
    outside: str = "0.0f"
    kind: str = FLOAT

    @property
    def whole(self) -> bool:
        """Whether the array is read in the order in which the result is computed."""
        return self.index == PLACE and not self.inside


def times(*sizes: Size) -> Size:
    """The product of numbers."""
    return math.prod(one for one, _ in sizes), math.prod(other for _, other in sizes)


def plus(*sizes: Size) -> Size:
    """The sum of numbers."""
    return sum(one for one, _ in sizes), sum(other for _, other in sizes)


def negative(size: Size) -> Size:
    """The number with the other sign."""
    return -size[0], -size[1]


def count(shape: Sequence[Size]) -> Size:
    """The number of elements of a shape."""
    return times(*shape)


def steps(shape: Sequence[Size]) -> list[Size]:
    """The distance between neighbouring elements along each axis of a dense array."""
    return [count(shape[axis + 1 :]) for axis in range(len(shape))]


def strided(shape: Sequence[Size], strides: Sequence[Size], offset: Size = ZERO) -> Index:
    """The index whose value changes by a stride along each axis of what is computed."""
    terms = tuple(
        Term(COMPUTED, inner, extent, stride)
        for extent, inner, stride in zip(shape, steps(shape), strides, strict=True)
        if extent != ONE and stride != ZERO
    )
    return _merged(Index(terms, offset), count(shape))


def broadcast(shape: Shape, to: Shape) -> Index:
    """The index into an array of a shape that is broadcast to another one.

    Raises `OtherError` if that is impossible.
    """
    aligned = (ONE,) * (len(to) - len(shape)) + shape
    if len(aligned) != len(to) or any(a not in (ONE, t) for a, t in zip(aligned, to, strict=True)):
        raise OtherError("it computes with arrays of incompatible shapes")
    strides = [s if a != ONE else ZERO for a, s in zip(aligned, steps(aligned), strict=True)]
    return strided(to, strides)


def moved(element: Element, to: Index, size: Size) -> Element:
    """The element that is read if the computed place, which is less than `size`, is replaced by an
    index."""
    inside = tuple(within(one, to, size) for one in element.inside)
    return replace(element, index=at(element.index, to, size), inside=inside)


def within(condition: Inside, to: Index, size: Size) -> Inside:
    """The same for a condition."""
    return replace(condition, index=at(condition.index, to, size))


def at(index: Index, to: Index, size: Size) -> Index:
    """An index whose computed place, which is less than `size`, is replaced by another index."""
    terms, offset = list[Term](), index.offset
    for term in index.terms:
        if isinstance(term.of, Index):
            terms.append(replace(term, of=at(term.of, to, size)))
        elif isinstance(term.of, Element):
            terms.append(replace(term, of=moved(term.of, to, size)))
        elif term.of != COMPUTED or to == PLACE:
            terms.append(term)
        elif term.inner == ONE and term.extent is None:
            terms += [replace(one, times=times(one.times, term.times)) for one in to.terms]
            offset = plus(offset, times(to.offset, term.times))
        else:
            part = _part(to, term)
            terms, offset = [*terms, *part.terms], plus(offset, part.offset)
    found = _merged(Index(tuple(terms), offset), size)
    if _length(found) > _MOST_TERMS:
        raise OtherError("it reorders an array too often")
    return found


def _length(index: Index) -> int:
    return sum(1 + (_length(t.of) if isinstance(t.of, Index) else 0) for t in index.terms)


def _part(index: Index, term: Term) -> Index:
    """The index `index / inner % extent * times`. The terms of the index are used if each of them
    changes either only the digit that is taken, or only other digits."""
    found, below, within, rest = list[Term](), ZERO, ZERO, index.offset
    start, whole = ZERO, Index((replace(term, of=index),))
    period = None if term.extent is None else times(term.inner, term.extent)
    for one in index.terms:
        most = None if one.extent is None else times(plus(one.extent, (-1, -1)), one.times)
        falls = max(one.times) < 0 and most is not None
        step = negative(one.times) if falls else one.times
        if falls and most is not None:  # counted from its lowest value
            rest, most = plus(rest, most), negative(most)
        if min(step) < 0:
            return whole
        if period is not None and _divides(period, step):
            continue
        if _divides(term.inner, step) and (most is not None or period is None):
            within = plus(within, most or ZERO)
            by = step[0] // term.inner[0], step[1] // term.inner[1]
            by = times(negative(by) if falls else by, term.times)
            found.append(replace(one, times=by))
            if falls and one.extent is not None:
                start = plus(start, times(plus(one.extent, (-1, -1)), negative(by)))
        elif most is not None:
            below = plus(below, most)
        else:
            return whole
    total = plus(below, within)
    apart = below[0] < term.inner[0] and below[1] < term.inner[1]
    if period is not None:
        apart = apart and total[0] < period[0] and total[1] < period[1]
    return Index(tuple(found), start) if apart and rest == ZERO else whole


def _divides(one: Size, other: Size) -> bool:
    return other[0] % one[0] == 0 and other[1] % one[1] == 0


def _merged(index: Index, size: Size) -> Index:
    """The same index with neighbouring digits of the computed place joined."""
    found = list[Term]()
    for term in sorted(index.terms, key=lambda term: -term.inner[0]):
        last = found[-1] if found else None
        if (
            last is not None and last.of == term.of == COMPUTED and term.extent and last.extent
            and last.inner == times(term.inner, term.extent)
            and last.times == times(term.times, term.extent)
        ):  # fmt: skip
            found[-1] = replace(term, extent=times(last.extent, term.extent))
        else:
            found.append(term)
    if index.offset == ZERO and found == [Term(COMPUTED, ONE, size, ONE)]:
        return PLACE
    return Index(tuple(found), index.offset)
