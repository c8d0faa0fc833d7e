"""The space of a workload's tilings: random points, neighbours and distances, vectorised."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from itertools import combinations, product

import numpy as np

from tilewright.core.errors import WorkloadError
from tilewright.tuner.candidates import Booleans, Candidates, Integers
from tilewright.tuner.structure import Structure
from tilewright.tuner.workload import LoopKind, TensorWorkload

Validity = Callable[[Candidates], Booleans]

_DRAW = 4096
_MOST_DRAWS = 1 << 21


def divisors(number: int) -> list[int]:
    """All divisors of a positive integer, ascending."""
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return small + [number // d for d in reversed(small) if d * d != number]


class TileSpace:
    """Perfect tilings of a workload's loops in one structure, with the structure's knobs.

    `valid` is the closed-form check of a device (`features.gpu`, `features.cpu`). Points that it
    rejects are neither drawn nor returned as neighbours. Without it, every perfect tiling is valid.
    """

    def __init__(
        self, workload: TensorWorkload, structure: Structure, valid: Validity | None = None
    ) -> None:
        self.workload = workload
        self.structure = structure
        self._valid = valid
        self._levels = [
            structure.spatial_levels
            if loop.kind is LoopKind.SPATIAL
            else structure.reduction_levels
            for loop in workload.loops
        ]
        self._divisors = [np.array(divisors(extent)) for extent in workload.extents]

    @property
    def levels(self) -> int:
        """Length of the level axis of the tile array."""
        return self.structure.spatial_levels

    @property
    def nothing(self) -> Candidates:
        """An empty batch."""
        return self._draw(0, np.random.default_rng(0))

    def levels_of(self, loop: int) -> int:
        """The number of levels into which this loop is split."""
        return self._levels[loop]

    @cached_property
    def coordinates(self) -> list[tuple[int, int]]:
        """The coordinates that a hop can change: (loop, level) for tiles, (-1, knob) for knobs.

        A loop's outermost level is not a coordinate, because it is determined by the other levels.
        """
        tiles = [
            (loop, level)
            for loop, extent in enumerate(self.workload.extents)
            for level in range(1, self._levels[loop])
            if extent > 1 and not self._frozen(loop, level)
        ]
        knobs = [(-1, k) for k, knob in enumerate(self.structure.knobs) if len(knob.choices) > 1]
        return tiles + knobs

    @cached_property
    def size(self) -> int:
        """Number of points before the device's check (but with the bounds on innermost levels)."""
        count = math.prod(len(knob.choices) for knob in self.structure.knobs)
        for loop, extent in enumerate(self.workload.extents):
            innermost = [d for d in divisors(extent) if d <= self.structure.max_innermost]
            free = [lv for lv in range(self._levels[loop] - 1) if not self._frozen(loop, lv)]
            count *= sum(_ordered_factorisations(extent // d, len(free)) for d in innermost)
        return count

    def valid(self, candidates: Candidates) -> Booleans:
        """Which candidates (n,) satisfy the bound on innermost levels and the device's check."""
        innermost = np.stack(
            [candidates.tiles[:, loop, levels - 1] for loop, levels in enumerate(self._levels)],
            axis=1,
        )
        kept: Booleans = np.all(innermost <= self.structure.max_innermost, axis=1)
        if self._valid is not None and kept.any():
            kept[kept] = self._valid(candidates[kept])
        return kept

    def random(
        self, count: int, rng: np.random.Generator, exclude: frozenset[bytes] = frozenset()
    ) -> Candidates:
        """Up to `count` distinct valid points, uniform among the valid points that are not
        excluded.

        Tiles are drawn uniformly among ordered factorisations and filtered by the closed-form
        check, so nothing is compiled or replayed. Fewer points are returned if the space has no
        more, or if two million draws find no more. Raises `WorkloadError` if no valid point was
        found and none was excluded.
        """
        batches: list[Candidates] = []
        seen = set(exclude)
        found = draws = 0
        while found < count and draws < min(_MOST_DRAWS, 64 * self.size):
            drawn = self._draw(_DRAW, rng)
            draws += _DRAW
            drawn = drawn[self.valid(drawn)]
            fresh = []
            for row, key in enumerate(drawn.row_keys()):
                if key not in seen:
                    seen.add(key)
                    fresh.append(row)
            batches.append(drawn[fresh[: count - found]])
            found += len(batches[-1])
        if found == 0 and not exclude and count > 0:
            raise WorkloadError(
                f"none of {draws} random tilings of workload {self.workload.name!r} is valid, "
                "because its loops cannot give this device enough threads or do not fit its "
                "memories. Change the sizes or the target."
            )
        return Candidates.concatenate(batches) if batches else self.nothing

    def neighbours(self, point: Candidates, hops: int) -> Candidates:
        """All valid points exactly `hops` coordinates away from the one candidate in `point`.

        Each coordinate moves to the next smaller or larger divisor of its loop's extent (or the
        next choice of its knob). The loop's outermost level is adjusted; moves for which this is
        not possible are left out. The order is deterministic. Shape (m, ...); m may be 0.
        """
        coordinates = self.coordinates
        if hops > len(coordinates):
            return point[[]]
        chosen = np.array(list(combinations(range(len(coordinates)), hops)), dtype=np.int64)
        signs = np.array(list(product((-1, 1), repeat=hops)), dtype=np.int64)
        which = np.repeat(chosen, len(signs), axis=0)
        sign = np.tile(signs, (len(chosen), 1))
        down, up = self._steps(point)
        target = np.where(sign < 0, down[which], up[which])
        reachable = (target >= 0).all(axis=1)
        which, target = which[reachable], target[reachable]
        tiles = np.repeat(point.tiles, len(which), axis=0)
        knobs = np.repeat(point.knobs, len(which), axis=0)
        loops = np.array([loop for loop, _ in coordinates])
        levels = np.array([level for _, level in coordinates])
        rows = np.arange(len(which))
        for hop in range(hops):
            loop, level, value = loops[which[:, hop]], levels[which[:, hop]], target[:, hop]
            tiled = loop >= 0
            tiles[rows[tiled], loop[tiled], level[tiled]] = value[tiled]
            knobs[rows[~tiled], level[~tiled]] = value[~tiled]
        inner = tiles[:, :, 1:].prod(axis=2)
        extents = np.array(self.workload.extents)
        whole = (extents % inner == 0).all(axis=1)
        tiles[:, :, 0] = extents // inner
        found = Candidates(tiles[whole], knobs[whole])
        return found[self.valid(found)]

    def distance(self, a: Candidates, b: Candidates) -> Integers:
        """Hops between the candidates of each row, (n,): the sum of the steps along divisors and
        choices.

        The outermost levels are not counted, because the other levels determine them.
        """
        total = np.abs(a.knobs - b.knobs).sum(axis=1)
        for loop, values in enumerate(self._divisors):
            steps = np.searchsorted(values, a.tiles[:, loop, 1:]) - np.searchsorted(
                values, b.tiles[:, loop, 1:]
            )
            total = total + np.abs(steps).sum(axis=1)
        return np.asarray(total, dtype=np.int64)

    def nearest(self, tiles: Integers, knobs: Integers) -> Candidates:
        """The tilings of this space that are most similar to tiles of another workload with the
        same loops.

        `tiles` (n, loops, levels) may have other products. From the innermost level outwards, each
        inner level becomes the largest divisor of the remaining extent that does not exceed the
        given value. `knobs` (n, knobs) are clipped to the choices. Points that are not valid here
        are left out.
        """
        found = np.ones_like(tiles)
        for row, candidate in enumerate(tiles):
            for loop, extent in enumerate(self.workload.extents):
                left = extent
                for level in range(self._levels[loop] - 1, 0, -1):
                    wanted = 1 if self._frozen(loop, level) else int(candidate[loop, level])
                    part = max(d for d in divisors(left) if d <= max(wanted, 1))
                    found[row, loop, level] = part
                    left //= part
                found[row, loop, 0] = left
        choices = np.array([len(knob.choices) for knob in self.structure.knobs], dtype=np.int64)
        points = Candidates(found, np.clip(knobs, 0, choices - 1))
        return points[self.valid(points)]

    def _frozen(self, loop: int, level: int) -> bool:
        kind = self.workload.loops[loop].kind
        return kind is LoopKind.SPATIAL and level in self.structure.frozen

    def _steps(self, point: Candidates) -> tuple[Integers, Integers]:
        """The value one step down and one step up for each coordinate; -1 if there is none."""
        down, up = [], []
        for loop, level in self.coordinates:
            if loop < 0:
                at, end = int(point.knobs[0, level]), len(self.structure.knobs[level].choices)
                down.append(at - 1)
                up.append(at + 1 if at + 1 < end else -1)
                continue
            values = self._divisors[loop]
            at = int(np.searchsorted(values, point.tiles[0, loop, level]))
            down.append(int(values[at - 1]) if at > 0 else -1)
            up.append(int(values[at + 1]) if at + 1 < len(values) else -1)
        return np.array(down, dtype=np.int64), np.array(up, dtype=np.int64)

    def _draw(self, count: int, rng: np.random.Generator) -> Candidates:
        """`count` random points, uniform in each loop's ordered factorisations and in each knob."""
        tiles = np.ones((count, len(self.workload.loops), self.levels), dtype=np.int64)
        for loop, extent in enumerate(self.workload.extents):
            free = [lv for lv in range(self._levels[loop]) if not self._frozen(loop, lv)]
            for prime, exponent in prime_factors(extent):
                parts = _compositions(exponent, len(free))
                picked = parts[rng.integers(len(parts), size=count)]
                tiles[:, loop, free] *= prime**picked
        knobs = (
            np.stack(
                [rng.integers(len(knob.choices), size=count) for knob in self.structure.knobs],
                axis=1,
            )
            if self.structure.knobs
            else np.zeros((count, 0), dtype=np.int64)
        )
        return Candidates(tiles, knobs)


def prime_factors(number: int) -> list[tuple[int, int]]:
    """Prime factors of a positive integer with their exponents."""
    factors, prime = [], 2
    while prime * prime <= number:
        exponent = 0
        while number % prime == 0:
            number //= prime
            exponent += 1
        if exponent:
            factors.append((prime, exponent))
        prime += 1
    return [*factors, (number, 1)] if number > 1 else factors


def _compositions(total: int, parts: int) -> Integers:
    """All ways to write `total` as an ordered sum of `parts` non-negative terms, (ways, parts)."""
    bars = np.array(list(combinations(range(total + parts - 1), parts - 1)), dtype=np.int64)
    bars = bars.reshape(math.comb(total + parts - 1, parts - 1), parts - 1)
    edges = np.concatenate(
        [np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), total + parts - 1)], axis=1
    )
    return np.diff(edges, axis=1) - 1


def _ordered_factorisations(number: int, parts: int) -> int:
    """Number of ordered factorisations of a number into this many factors."""
    if parts == 0:
        return int(number == 1)
    return math.prod(math.comb(e + parts - 1, parts - 1) for _, e in prime_factors(number))
