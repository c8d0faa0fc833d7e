"""The points of a space as a lattice: positions of values, coordinates for a model, neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from tilewright.core.templates import ParameterSpace, Point
from tilewright.tuner.candidates import Floats, Integers

OCTAVES = 0.5
"""Where there are estimates: how often a value doubles along a coordinate of length 1."""


class Lattice:
    """All points of a template (or another space) that satisfy its constraints, as rows in a fixed
    order.

    `places` (n, parameters) is the position of each value among its parameter's values in ascending
    order. `estimates` (n,) are the logarithms of the estimated latencies, and `counts` (n, d) the
    counts of the static estimate; each is None if the space has none.
    """

    def __init__(self, space: ParameterSpace) -> None:
        self.points = space.points()
        estimates = space.estimates()
        self.estimates: Floats | None = None if estimates is None else np.log(estimates)
        counts = space.counts()
        self.counts: Floats | None = None if counts is None else np.array(counts, dtype=np.float64)
        self._ascending = [np.array(sorted(p.values)) for p in space.parameters]
        values = np.array(self.points, dtype=np.int64).reshape(len(self.points), -1)
        self.places: Integers = np.stack(
            [np.searchsorted(known, values[:, n]) for n, known in enumerate(self._ascending)],
            axis=1,
        ).astype(np.int64)

    def __len__(self) -> int:
        return len(self.points)

    @cached_property
    def _rows(self) -> dict[Point, int]:
        return {point: row for row, point in enumerate(self.points)}

    def rows_of(self, points: Sequence[Point]) -> Integers:
        """The rows of these points."""
        return np.array([self._rows[point] for point in points], dtype=np.int64)

    @cached_property
    def coordinates(self) -> Floats:
        """Each parameter from 0 to 1 by the logarithm of its values, (n, parameters that vary).

        Sizes have effects by their ratios, so the step from 16 to 32 equals that from 32 to 64. If
        a value is not above 0 (a switch, for example), its position is used instead. The values of
        a template show the range in which they matter. The values near those of a kernel do not, so
        their coordinates all have the same scale. Where there are counts, they are the coordinates.
        """
        if self.counts is not None:
            return self.counts
        columns = []
        for number, values in enumerate(self._ascending):
            if len(values) < 2:
                continue
            scale = np.log2(values) if values[0] > 0 else np.arange(len(values), dtype=np.float64)
            length = scale[-1] - scale[0] if self.estimates is None else OCTAVES
            scale = (scale - scale[0]) / length
            columns.append(scale[self.places[:, number]])
        return np.stack(columns, axis=1) if columns else np.zeros((len(self), 1))

    def hops(self, row: int, rows: Integers) -> Integers:
        """Number of steps between neighbouring values from a point to each of the others, (n,)."""
        return np.asarray(np.abs(self.places[rows] - self.places[row]).sum(axis=1), dtype=np.int64)
