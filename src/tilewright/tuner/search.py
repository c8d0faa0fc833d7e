"""What a tile search is: it is asked for candidates to measure and told what they took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tilewright.tuner.candidates import Candidates
from tilewright.tuner.space import TileSpace


class TileSearch(Protocol):
    """Ask, measure, tell, until `ask` returns an empty batch.

    What is asked depends only on the seed and on what was told, so a run resumes by answering the
    same questions from what is stored. `upcoming` may be built while a batch is measured.
    """

    def ask(self) -> Candidates:
        """The next candidates to measure, each one new; the same batch until `tell` is called."""
        ...

    def upcoming(self) -> Candidates:
        """What will be asked next unless the pending batch changes the search's mind.

        Looking changes nothing. Empty where it cannot be known before the answer.
        """
        ...

    def tell(self, seconds: Sequence[float | None]) -> None:
        """Times of the batch last asked, in its order; `None` for a candidate that failed."""
        ...


class KnownPoints:
    """Points that are all known before the first measurement, `batch` at a time."""

    def __init__(self, points: Candidates, batch: int) -> None:
        self._points = points
        self._batch = batch
        self._at = 0

    def ask(self) -> Candidates:
        """The next `batch` points."""
        return self._points[self._at : self._at + self._batch]

    def upcoming(self) -> Candidates:
        """The batch after the pending one; always what will be asked."""
        return self._points[self._at + self._batch : self._at + 2 * self._batch]

    def tell(self, seconds: Sequence[float | None]) -> None:
        """Step to the next batch; what the candidates took does not matter here."""
        self._at += len(seconds)


class RandomSearch(KnownPoints):
    """Uniformly random valid candidates, without repetition: the baseline of every comparison."""

    def __init__(self, space: TileSpace, trials: int, seed: int = 0, batch: int = 64) -> None:
        super().__init__(space.random(trials, np.random.default_rng(seed)), batch)
