"""The interface of tile searches: `ask` returns candidates to measure, and `tell` receives their
times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tilewright.tuner.candidates import Candidates
from tilewright.tuner.space import TileSpace


class TileSearch(Protocol):
    """Call `ask`, measure the batch and call `tell`, until `ask` returns an empty batch.

    The candidates depend only on the seed and on the reported times, so a run is resumed by
    repeating the search with the stored times. The candidates that `upcoming` returns may be built
    while a batch is measured.
    """

    def ask(self) -> Candidates:
        """The next candidates to measure, all new; the same batch until `tell` is called."""
        ...

    def upcoming(self) -> Candidates:
        """The candidates that `ask` will return next unless the times of the pending batch change
        this.

        The call does not change the search. The result is empty if the next candidates depend on
        the pending times.
        """
        ...

    def tell(self, seconds: Sequence[float | None]) -> None:
        """Report the times of the latest batch in its order; `None` for a candidate that failed."""
        ...


class KnownPoints:
    """Points that are all known before the first measurement, in batches of `batch` points."""

    def __init__(self, points: Candidates, batch: int) -> None:
        self._points = points
        self._batch = batch
        self._at = 0

    def ask(self) -> Candidates:
        """The next `batch` points."""
        return self._points[self._at : self._at + self._batch]

    def upcoming(self) -> Candidates:
        """The batch after the pending one, which `ask` will always return."""
        return self._points[self._at + self._batch : self._at + 2 * self._batch]

    def tell(self, seconds: Sequence[float | None]) -> None:
        """Go to the next batch. The times have no influence."""
        self._at += len(seconds)


class RandomSearch(KnownPoints):
    """Uniformly random valid candidates without repetition, the baseline of every comparison."""

    def __init__(self, space: TileSpace, trials: int, seed: int = 0, batch: int = 64) -> None:
        super().__init__(space.random(trials, np.random.default_rng(seed)), batch)
