"""A batch of candidates, stored as integer arrays so that all operations are vectorised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Candidates:
    """`n` points of a tile space.

    `tiles` has shape (n, loops, levels), outermost level first; each row's product is the loop's
    extent, and levels that a loop does not have (a reduction's) are 1. `knobs` has shape
    (n, knobs) and holds, for each knob of the space, the position of the choice, not its value.
    """

    tiles: Integers
    knobs: Integers

    def __len__(self) -> int:
        return len(self.tiles)

    def __getitem__(self, rows: slice | Sequence[int] | Integers | Booleans) -> Candidates:
        """The candidates in these rows, as a batch."""
        return Candidates(self.tiles[rows], self.knobs[rows])

    def row_keys(self) -> list[bytes]:
        """One hashable key for each candidate. Two keys are equal only if the candidates are
        equal.
        """
        count = len(self)
        width = self.tiles[0].size if count else 0
        flat = np.concatenate([self.tiles.reshape(count, width), self.knobs], axis=1)
        return [row.tobytes() for row in np.ascontiguousarray(flat, dtype=np.int64)]

    @staticmethod
    def concatenate(batches: Sequence[Candidates]) -> Candidates:
        """All candidates of one or more batches of the same space, in order."""
        return Candidates(
            np.concatenate([batch.tiles for batch in batches]),
            np.concatenate([batch.knobs for batch in batches]),
        )
