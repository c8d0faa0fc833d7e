"""Tiles that are constructed by rules, after ROLLER (OSDI'22), without a cost model or a search.

A tile grows from the innermost level of memory to the outermost. At the start, it covers whole
vectors along the loop that is vectorised, and one iteration of each other loop. In each step, one
loop grows by a prime factor of the rest of its extent. The loop is the one that saves the most
traffic for each byte by which the tile grows. When the tile can no longer grow without exceeding
the memory of a level, it grows in the next level. More tiles result from taking the second-best
loop, the third-best one and so on.
"""

from __future__ import annotations

import math

import numpy as np

from tilewright.tuner.candidates import Candidates
from tilewright.tuner.device import CpuDevice
from tilewright.tuner.features.footprint import footprint
from tilewright.tuner.search import KnownPoints
from tilewright.tuner.space import TileSpace, divisors, prime_factors

TILES_PER_LEVEL = (5, 5, 2)
"""Number of largest tiles that are kept: in registers, in L1 for each register tile, and in L2 for
each L1 tile.
"""

Tile = tuple[int, ...]
"""Consecutive iterations of each loop that a tile covers."""


class ConstructedTiles(KnownPoints):
    """Up to 50 points of the SSRSRS template on a processor, in the order of the best growth steps.

    The levels are those of `CpuFeatures`: the register tile is S3 without a reduction, the L1 tile
    S2 R1 S3, and the L2 tile S1 with the whole reduction. The output is flushed after each L2 tile,
    and inputs are padded before the loop nest. A tile never grows so large that a core has no work.
    """

    def __init__(self, space: TileSpace, device: CpuDevice, trials: int, batch: int = 10) -> None:
        self._space, self._workload, self._device = space, space.workload, device
        self._element = self._workload.output.element_bytes
        super().__init__(self._constructed()[:trials], batch)

    def _constructed(self) -> Candidates:
        spatial = self._workload.spatial
        found: list[tuple[int, Candidates]] = []
        for first, register in enumerate(self._saturated(self._aligned(), 0)):
            for second, l1 in enumerate(self._saturated(register, 1)):
                reduced = (*l1[:spatial], *self._workload.extents[spatial:])
                for third, l2 in enumerate(self._saturated(reduced, 2)):
                    found.append((first + second + third, self._point(register, l1, l2)))
        found.sort(key=lambda ranked: ranked[0])
        points = Candidates.concatenate([self._space.nothing, *(point for _, point in found)])
        return points[self._space.valid(points)]

    def _aligned(self) -> Tile:
        """Whole vectors of the vectorised loop, or part of one vector if its extent is smaller."""
        loop = self._workload.vector_loop
        lanes = self._device.lanes(self._element)
        sizes = divisors(self._workload.extents[loop])
        whole = [size for size in sizes if size % lanes == 0]
        columns = whole[0] if whole else max(size for size in sizes if size <= lanes)
        return tuple(columns if n == loop else 1 for n in range(len(self._workload.loops)))

    def _saturated(self, tile: Tile, level: int) -> list[Tile]:
        """Tiles that cannot grow further in this level, those of the best growth steps first."""
        found: list[Tile] = []
        seen: set[Tile] = set()

        def grow(tile: Tile) -> None:
            if tile in seen or len(found) >= TILES_PER_LEVEL[level]:
                return
            seen.add(tile)
            larger = [grown for grown in self._larger(tile, level) if self._fits(grown, level)]
            if not larger:
                found.append(tile)
            for grown in sorted(larger, key=lambda grown: -self._saving(tile, grown)):
                grow(grown)

        grow(tile)
        return found

    def _larger(self, tile: Tile, level: int) -> list[Tile]:
        """Copies of the tile, each with one of the level's loops enlarged by a prime factor of its
        remaining extent."""
        loops = range(len(tile) if level == 1 else self._workload.spatial)
        return [
            (*tile[:loop], tile[loop] * prime, *tile[loop + 1 :])
            for loop in loops
            for prime, _ in prime_factors(self._workload.extents[loop] // tile[loop])
        ]

    def _fits(self, tile: Tile, level: int) -> bool:
        """Whether the tile fits into the level's memory, and each core still has work."""
        spatial = self._workload.spatial
        jobs = math.prod(self._workload.extents[:spatial]) // math.prod(tile[:spatial])
        if jobs < self._device.cores:
            return False
        if level > 0:
            capacity = self._device.l1_bytes if level == 1 else self._device.l2_bytes
            return self._elements(tile) * self._element <= capacity
        columns = tile[self._workload.vector_loop]
        vectors = math.ceil(columns / self._device.lanes(self._element))
        rows = math.prod(tile[:spatial]) // columns
        innermost = max(tile) <= self._space.structure.max_innermost
        return innermost and rows * vectors <= self._device.accumulators

    def _saving(self, tile: Tile, larger: Tile) -> float:
        """Elements of traffic that the growth saves for each element that the tile grows by."""
        traffic = [self._elements(size) / math.prod(size) for size in (tile, larger)]
        growth = self._elements(larger) - self._elements(tile)
        return self._workload.macs * (traffic[0] - traffic[1]) / growth

    def _elements(self, tile: Tile) -> float:
        """Number of elements of all buffers that a tile accesses."""
        sizes = np.array([tile])
        accesses = (*self._workload.inputs, self._workload.output)
        return float(sum(footprint(access, sizes)[0] for access in accesses))

    def _point(self, register: Tile, l1: Tile, l2: Tile) -> Candidates:
        spatial = self._workload.spatial
        tiles = np.ones((1, len(register), self._space.levels), dtype=np.int64)
        for loop, extent in enumerate(self._workload.extents):
            if loop < spatial:
                inner = (l2[loop], l1[loop], register[loop], 1)
                outer = (extent, *inner[:-1])
                tiles[0, loop] = [a // b for a, b in zip(outer, inner, strict=True)]
            else:
                tiles[0, loop, :2] = [extent // l1[loop], l1[loop]]
        wanted = {"write_cache": 1, "pad_band": -1}
        knobs = [
            knob.choices.index(wanted[knob.name]) if knob.name in wanted else 0
            for knob in self._space.structure.knobs
        ]
        return Candidates(tiles, np.array([knobs], dtype=np.int64))
