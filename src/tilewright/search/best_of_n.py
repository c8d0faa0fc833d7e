"""Best of N: every candidate is made from the starting kernel, none from another candidate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tilewright.core.config import Settings
from tilewright.core.records import History, Trial
from tilewright.search.values_only import values_only


@dataclass(frozen=True, slots=True)
class BestOfN:
    """The `SearchStrategy` that repeats the first step: what a search gains by building on results.

    Attributes:
        iterations: rounds of proposing from the starting kernel; the seed differs in each.
    """

    iterations: int = 15

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The strategy as the settings want it; a beam and patience mean nothing to it."""
        return cls(settings.iterations)

    def select(self, history: History) -> list[Trial]:
        """The starting kernel."""
        start = history.baseline
        return [start] if start is not None and start.latency is not None else []

    def limit_latency(self, parent: Trial) -> float | None:
        """The starting kernel's latency: only a faster kernel is a result."""
        return parent.latency

    def should_stop(self, history: History, iteration: int) -> str | None:
        """After all rounds; one without a better kernel says nothing about the next."""
        if iteration - values_only(history) > self.iterations:
            return f"all {self.iterations} iterations are done"
        return None
