"""Describes regular sets of sums: rows of results with the same structure, as loop nests over
addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TypeAlias

import numpy as np

from tilewright.proposers.rewriter.raising.computation import Computation, Store, relative
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.translation.parts import SPACING

Vector: TypeAlias = tuple[int, ...]
_Key: TypeAlias = tuple[int, Store, bytes, tuple[float, ...]]
"""Phase, way of storing, products relative to those of `_Form.first`, and scales of added rows."""
MOST_PIECES = 64
"""Maximum number of nests of a computation."""


@dataclass(frozen=True, slots=True)
class Lattice:
    """Points `base + sum of i_d * step_d`, where every i_d counts from 0 to below its count."""

    base: Vector
    dims: tuple[tuple[Vector, int], ...]


@dataclass(frozen=True, slots=True)
class Terms:
    """Products of one kind in a sum: addresses of the first and second operand, relative to those
    at the positions `first` and `first + 1` of a point."""

    kind: int
    points: Lattice
    first: int = 1


@dataclass(frozen=True, slots=True)
class Nest:
    """Rows of results with the same structure.

    A point consists of the address of the result, the addresses of two operands for each pair of
    arrays that are multiplied (both 0 if there are no products), and the address of each added row.
    The distances between the points may thus differ from array to array. `scales` are the scales
    with which the added rows are loaded.
    """

    phase: int
    how: Store
    points: Lattice
    terms: tuple[Terms, ...]
    scales: tuple[float, ...]

    @property
    def firsts(self) -> range:
        """The positions of first operands in a point."""
        return range(1, self.added, 2)

    @property
    def added(self) -> int:
        """The position of the first added row in a point."""
        return len(self.points.base) - len(self.scales)


class _Form:
    """The products of a sum as `relative` gives them, grouped by the pair of arrays that they
    multiply.

    `first` are the operands of the first product of each group, `steps` the bytes from row to row
    of its first operand, and `apart` are the products relative to these, with first operand, second
    operand, kind and group as columns. `uneven` is true if the rows of one group have several
    steps.
    """

    first: list[int]
    steps: list[int]
    uneven: bool
    apart: bytes

    def __init__(self, products: np.ndarray) -> None:
        self.products = products[np.lexsort(products[:, [1, 3, 2, 0]].T)]
        if not len(products):
            self.first, self.steps, self.uneven, self.apart = [0, 0], [0, 0], False, b""
            return
        arrays = (self.products[:, ::2] + SPACING // 2) // SPACING
        groups, of = np.unique(arrays, axis=0, return_inverse=True)
        self.first, self.steps, self.uneven = [], [], False
        apart = np.column_stack([self.products[:, [0, 2, 3]], of.reshape(-1)])
        for number in range(len(groups)):
            inside = apart[:, 3] == number
            begin = int(np.argmax(inside))
            self.first += apart[begin, :2].tolist()
            self.steps += [int(self.products[begin, 1]), 0]
            self.uneven |= len(set(self.products[inside, 1].tolist())) > 1
            apart[inside, :2] -= apart[begin, :2].copy()
        self.apart = apart.tobytes()

    def rows(self, count: int) -> Iterator[tuple[_Form, range]]:
        """Rows of sums that have the same form, as far as possible, with their numbers."""
        if not self.uneven or count == 1:
            yield self, range(count)
            return
        for row in range(count):
            one = self.products.copy()
            one[:, 0] += row * one[:, 1]
            one[:, 1] = 0
            yield _Form(one), range(row, row + 1)


def nests(computation: Computation) -> list[Nest]:
    """The computation's rows as nests, earlier phases first."""
    groups: dict[_Key, list[np.ndarray]] = {}
    forms: dict[bytes, _Form] = {}
    for stored in computation.stored:
        apart = relative(stored.products)
        written = apart.tobytes()
        if written not in forms:
            forms[written] = _Form(apart)
        form = forms[written]
        origin = stored.products[0][0::2] if stored.products else (0, 0)
        added = sorted(stored.rows)
        scales = tuple(f for _, _, f in added)
        for part, number in form.rows(stored.count):
            key = (stored.phase, stored.how, part.apart, scales)
            begin = np.array(
                [stored.address, *map(sum, zip(part.first, cycle(origin), strict=False)),
                 *(a for a, _, _ in added)]
            )  # fmt: skip
            step = np.array([stored.stride, *part.steps, *(s for _, s, _ in added)])
            rows = np.arange(number.start, number.stop, dtype=np.int64)
            groups.setdefault(key, []).append(begin + rows[:, None] * step)
    found: list[Nest] = []
    for (phase, how, terms, scales), parts in groups.items():
        points = np.concatenate(parts)
        points = points[np.argsort(points[:, 0], kind="stable")]
        listed = _terms(np.frombuffer(terms, dtype=np.int64).reshape(-1, 4))
        found += [
            Nest(phase, how, one, listed, scales)
            for one in _fewest(points, points.shape[1] - len(scales))
        ]
        if len(found) > MOST_PIECES:
            raise NotRaised(f"the results form more than {MOST_PIECES} regular parts")
    return sorted(found, key=lambda n: (n.phase, n.points.base))


def _fewest(points: np.ndarray, added: int) -> list[Lattice]:
    """Points as lattices, whichever gives fewer: all points together, or first those with the same
    second operands, which come before position `added`. At the edges of a padded image, points with
    different taps alternate."""
    together = lattices(map(tuple, points.tolist()))
    if len(together) == 1:
        return together
    seconds = points[:, 2:added:2]
    apart = [points[(seconds == one).all(axis=1)] for one in np.unique(seconds, axis=0)]
    parts = [one for some in apart for one in lattices(map(tuple, some.tolist()))]
    return min(together, _joined(parts), key=len)


def _terms(apart: np.ndarray) -> tuple[Terms, ...]:
    """The products of a sum, as lattices for each kind and pair of arrays."""
    result = []
    for kind, group in sorted(set(map(tuple, apart[:, 2:].tolist()))):
        points = apart[(apart[:, 2] == kind) & (apart[:, 3] == group)][:, :2]
        once, counts = np.unique(points, axis=0, return_counts=True)
        times = int(counts.min()) if len(set(counts.tolist())) == 1 else 1
        found = lattices(map(tuple, (once if times > 1 else points).tolist()))
        if times > 1:  # the sum contains every product several times
            found = [Lattice(one.base, (((0, 0), times), *one.dims)) for one in found]
        result += [Terms(kind, lattice, 1 + 2 * group) for lattice in found]
    if len(result) > MOST_PIECES:
        raise NotRaised(f"the sums form more than {MOST_PIECES} regular parts")
    return tuple(result)


def lattices(points: Iterable[Vector]) -> list[Lattice]:
    """Sorted points as few lattices: evenly spaced runs, then runs of runs."""
    return _joined([Lattice(point, ()) for point in points])


def grouped(points: Iterable[Vector]) -> list[Lattice]:
    """Points whose order does not matter as few lattices: runs with the same form are joined even
    if other points lie between them."""
    found = [Lattice(point, ()) for point in sorted(points)]
    while True:
        forms: dict[tuple[tuple[Vector, int], ...], list[Lattice]] = {}
        for one in found:
            forms.setdefault(one.dims, []).append(one)
        joined = [one for alike in forms.values() for one in _merged(alike, cut=False)]
        if len(joined) == len(found):
            return sorted(joined, key=lambda lattice: lattice.base)
        found = joined


def _joined(found: list[Lattice]) -> list[Lattice]:
    """Lattices, with those merged that form larger ones."""
    while True:
        merged = _merged(found)
        if len(merged) == len(found):
            return merged
        found = merged


def _merged(parts: Sequence[Lattice], *, cut: bool = True) -> list[Lattice]:
    """Adjacent lattices with the same form and evenly spaced bases, merged into one with one more
    dimension.

    With `cut`, a run is cut where the previous run ended if it consists of several runs with the
    same step and form, because the last points of a row and the first ones of the next may be
    evenly spaced by chance.
    """
    result: list[Lattice] = []
    at = 0
    while at < len(parts):
        first, stop = parts[at], at + 1
        step: Vector | None = None
        while stop < len(parts) and parts[stop].dims == first.dims:
            new = tuple(b - a for a, b in zip(parts[stop - 1].base, parts[stop].base, strict=True))
            if step not in (None, new) or any(not 0 <= n < SPACING // 2 for n in new):
                break  # not evenly spaced, in another array, or at a lower address
            step, stop = new, stop + 1
        before = result[-1].dims if result else ()
        if cut and before and before[1:] == first.dims and before[0][0] == step:
            stop = stop if (stop - at) % before[0][1] else at + before[0][1]
        if step is None:
            result.append(first)
        else:
            result.append(Lattice(first.base, ((step, stop - at), *first.dims)))
        at = stop
    return result
