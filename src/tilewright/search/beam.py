"""Beam search, whose beam contains the B best kernels that are faster than their parents.

Two thirds of the beam are reserved for kernels that were written without the schedule of the
starting kernel, and for their descendants, until one of them is the best kernel. A schedule that
was tuned by hand is faster than a new one at first, but can seldom be improved further, while new
schedules need as many trials as in any other search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tilewright.core.config import Settings
from tilewright.core.records import History, Trial
from tilewright.search.parameter_iterations import values_only
from tilewright.search.ranking import Ranking, begins_anew

VALUES_ARE_FOUND = "the search for the values of the template has converged"
"""Why a search ends that only searches the values of a template."""


@dataclass(frozen=True, slots=True)
class BeamSearch:
    """The `SearchStrategy` of plan-then-implement beam search; a pure function of the history.

    Attributes:
        width: B, the number of parents in the beam.
        iterations: T, the maximum number of iterations, counted from 1 (the starting kernel is
        iteration 0). Iterations that only searched the values of templates are not included.
        patience: stop if the best kernel has not improved for this number of iterations. Iterations
        without a new candidate are not included. Twice as many of them in a row also end the
        search.
        values_alone: only the values of a template are searched, so the first iteration without a
        new candidate ends the search.
    """

    width: int = 6
    iterations: int = 15
    patience: int = 4
    values_alone: bool = False

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The strategy that the settings describe."""
        values_alone = "structure" in settings.without
        return cls(settings.beam, settings.iterations, settings.patience, values_alone)

    def select(self, history: History) -> list[Trial]:
        """The beam, the best kernel first: measured kernels that are faster than their parents.

        Kernels of earlier iterations compete again, so the best kernel is always in the beam. Of
        several variations of one kernel, only the fastest is in the beam (`Ranking`).
        """
        return history.indexed(_Lines).best(self.width)

    def limit_latency(self, parent: Trial) -> float | None:
        """The parent's latency: a child that does not beat it is not kept."""
        return parent.latency

    def should_stop(self, history: History, iteration: int) -> str | None:
        """Why the search is over before `iteration` starts, or None."""
        if iteration - values_only(history) > self.iterations:
            return f"all {self.iterations} iterations are done"
        found = [best.iteration for best in history.indexed(_Lines).bests()]
        newest = max(found, default=0)
        if found and history.iterations_after(newest) - values_only(history, newest) >= (
            self.patience
        ):
            return f"{self.patience} iterations in a row found no faster kernel"
        idle = iteration - 1 - (history[-1].iteration if history else 0)
        if idle and self.values_alone:
            return VALUES_ARE_FOUND
        if idle >= 2 * self.patience:
            return f"{idle} iterations in a row proposed nothing new"
        return None


class _Lines:
    """Two rankings: of kernels with the schedule of the starting kernel and their descendants, and
    of kernels written without it.
    """

    def __init__(self) -> None:
        self._all, self._given, self._new = Ranking(), Ranking(), Ranking()
        self._anew: set[str] = set()  # candidates

    def add(self, trial: Trial, history: History) -> None:
        """Add the last trial of a history."""
        candidate = trial.candidate
        is_new = begins_anew(candidate) or candidate.parent_id in self._anew
        if is_new:
            self._anew.add(candidate.id)
        for ranking in (self._all, self._new if is_new else self._given):
            ranking.add(trial, history)

    def bests(self) -> list[Trial]:
        """The best kernel of each of the two rankings that is not empty."""
        return [*self._given.best(1), *self._new.best(1)]

    def best(self, count: int) -> list[Trial]:
        """The `count` best kernels. While the given schedule is the fastest, two thirds of them
        were written without it.
        """
        overall, new = self._all.best(count), self._new.best(count)
        if not new or overall[0].candidate.id in self._anew:
            return overall
        given = self._given.best(max(-(-count // 3), count - len(new)))
        chosen = (*given, *new[: count - len(given)])
        return sorted(chosen, key=lambda t: (t.latency or 0.0, t.index))
