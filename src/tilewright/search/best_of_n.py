"""The strategy best-of-n, in which every candidate is derived from the starting kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tilewright.core.config import Settings
from tilewright.core.records import History, Trial
from tilewright.search.parameter_iterations import values_only


@dataclass(frozen=True, slots=True)
class BestOfN:
    """A `SearchStrategy` that repeats the first step. A comparison with it shows how much a search
    gains by building on results.

    Attributes:
        iterations: the number of rounds, each of which proposes candidates from the starting kernel
        with another seed.
    """

    iterations: int = 15

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The strategy that the settings describe; `beam` and `patience` are ignored."""
        return cls(settings.iterations)

    def select(self, history: History) -> list[Trial]:
        """The starting kernel."""
        start = history.baseline
        return [start] if start is not None and start.latency is not None else []

    def limit_latency(self, parent: Trial) -> float | None:
        """The starting kernel's latency, because only a faster kernel is a result."""
        return parent.latency

    def should_stop(self, history: History, iteration: int) -> str | None:
        """The reason for stopping after the last round. Rounds without a better kernel do not end
        the search.
        """
        if iteration - values_only(history) > self.iterations:
            return f"all {self.iterations} iterations are done"
        return None
