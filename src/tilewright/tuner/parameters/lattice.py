"""A template's points as a lattice: places of values, coordinates for a model, neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from tilewright.core.templates import KernelTemplate, Point
from tilewright.tuner.candidates import Floats, Integers


class Lattice:
    """All points of a template that satisfy its constraints, as rows in a fixed order.

    `places` (n, parameters) holds each value's place among its parameter's values, ascending.
    """

    def __init__(self, template: KernelTemplate) -> None:
        self.points = template.points()
        self._ascending = [np.array(sorted(p.values)) for p in template.parameters]
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

        Sizes act by their ratios: 16 to 32 is the step that 32 to 64 is. Where a value is not above
        0 (a switch, say) its place counts instead.
        """
        columns = []
        for number, values in enumerate(self._ascending):
            if len(values) < 2:
                continue
            scale = np.log2(values) if values[0] > 0 else np.arange(len(values), dtype=np.float64)
            scale = (scale - scale[0]) / (scale[-1] - scale[0])
            columns.append(scale[self.places[:, number]])
        return np.stack(columns, axis=1) if columns else np.zeros((len(self), 1))

    def hops(self, row: int, rows: Integers) -> Integers:
        """How many steps between neighbouring values lie between a point and others, (n,)."""
        return np.asarray(np.abs(self.places[rows] - self.places[row]).sum(axis=1), dtype=np.int64)
