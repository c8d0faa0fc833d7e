"""Describes regular sets of sums: rows of results with the same structure, as loop nests over
addresses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tilewright.proposers.rewriter.raising.computation import Computation, Store, relative
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.translation.parts import SPACING

Vector: TypeAlias = tuple[int, ...]
_Key: TypeAlias = tuple[int, Store, bytes, tuple[float, ...]]
"""Phase, way of storing, products relative to the first one, and scales of added rows."""
MOST_PIECES = 64
"""Maximum number of nests of a computation."""


@dataclass(frozen=True, slots=True)
class Lattice:
    """Points `base + sum of i_d * step_d`, where every i_d counts from 0 to below its count."""

    base: Vector
    dims: tuple[tuple[Vector, int], ...]


@dataclass(frozen=True, slots=True)
class Terms:
    """Products of one kind in a sum: addresses of the first and second operand, relative to the
    first product."""

    kind: int
    points: Lattice


@dataclass(frozen=True, slots=True)
class Nest:
    """Rows of results with the same structure.

    A point consists of the address of the result, the addresses of the first product's operands
    (both 0 if there are no products), and the address of each added row. `scales` are the scales
    with which the added rows are loaded.
    """

    phase: int
    how: Store
    points: Lattice
    terms: tuple[Terms, ...]
    scales: tuple[float, ...]


class _Form:
    """The products of a sum as `relative` gives them: sorted by first operand, second operand,
    kind and step, which are the columns.

    `steps` are the bytes from row to row, `first` are the operands of the first product after
    sorting, and `apart` are the products relative to it.
    """

    def __init__(self, products: np.ndarray) -> None:
        columns = products[:, [0, 2, 3, 1]]
        self.products = columns[np.lexsort(columns.T[::-1])]
        self.steps: list[int] = sorted(set(self.products[:, 3].tolist()))
        self.first = _first(self.products)
        self.apart = _apart(self.products)


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
        if len(form.steps) > 1 and stored.count > 1:
            for r in range(stored.count):
                one = form.products.copy()
                one[:, :2] += origin
                one[:, 0] += r * one[:, 3]
                one = one[np.lexsort((one[:, 1], one[:, 0]))]
                key = (stored.phase, stored.how, _apart(one), scales)
                row = [stored.address + r * stored.stride, *_first(one),
                       *(a + r * s for a, s, _ in added)]  # fmt: skip
                groups.setdefault(key, []).append(np.array([row], dtype=np.int64))
            continue
        step = form.steps[0] if form.steps else 0
        first = [o + f for o, f in zip(origin, form.first, strict=True)]
        rows = [
            [stored.address + r * stored.stride, first[0] + r * step, first[1],
             *(a + r * s for a, s, _ in added)]
            for r in range(stored.count)
        ]  # fmt: skip
        key = (stored.phase, stored.how, form.apart, scales)
        groups.setdefault(key, []).append(np.array(rows, dtype=np.int64))
    found: list[Nest] = []
    for (phase, how, terms, scales), parts in groups.items():
        points = np.concatenate(parts)
        points = points[np.argsort(points[:, 0], kind="stable")]
        listed = _terms(np.frombuffer(terms, dtype=np.int64).reshape(-1, 3))
        found += [Nest(phase, how, one, listed, scales) for one in _fewest(points)]
        if len(found) > MOST_PIECES:
            raise NotRaised(f"the results form more than {MOST_PIECES} regular parts")
    return sorted(found, key=lambda n: (n.phase, n.points.base))


def _fewest(points: np.ndarray) -> list[Lattice]:
    """Points as lattices, whichever gives fewer: all points together, or first those with the same
    second operand. At the edges of a padded image, points with different taps alternate."""
    together = lattices(map(tuple, points.tolist()))
    if len(together) == 1:
        return together
    apart = [points[points[:, 2] == second] for second in sorted(set(points[:, 2].tolist()))]
    parts = [one for some in apart for one in lattices(map(tuple, some.tolist()))]
    return min(together, _joined(parts), key=len)


def _first(products: np.ndarray) -> list[int]:
    return [int(v) for v in products[0, :2]] if len(products) else [0, 0]


def _apart(products: np.ndarray) -> bytes:
    """The operands and kinds of products, relative to the first product."""
    apart = products[:, :3].copy()
    if len(apart):
        apart[:, :2] -= apart[0, :2].copy()
    return apart.tobytes()


def _terms(apart: np.ndarray) -> tuple[Terms, ...]:
    """The products of a sum, as lattices for each kind."""
    result = []
    for kind in sorted(set(apart[:, 2].tolist())):
        points = apart[apart[:, 2] == kind][:, :2]
        result += [Terms(kind, lattice) for lattice in lattices(map(tuple, points.tolist()))]
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
