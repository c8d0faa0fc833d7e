"""Beam search: the B best kernels that each improved on their parent.

Kernels that begin anew, without the start's schedule, and what descends from them have two thirds
of the places until one of them is the best of all: a schedule that somebody tuned is ahead of any
new one at first, and seldom leads on, while new ones need as many trials as any other search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tilewright.core.config import Settings
from tilewright.core.records import History, Trial
from tilewright.search.ranking import Ranking, begins_anew
from tilewright.search.values_only import values_only


@dataclass(frozen=True, slots=True)
class BeamSearch:
    """The `SearchStrategy` of plan-then-implement beam search; a pure function of the history.

    Attributes:
        width: B, parents kept.
        iterations: T, iterations at most (they count from 1; the starting kernel is 0), without
            those that searched the values of templates alone.
        patience: stop when the best kernel did not improve for this many iterations. One whose
            parents gave no new candidate does not count: it cost nothing and tried nothing. Twice
            as many of those in a row end the search too.
    """

    width: int = 6
    iterations: int = 15
    patience: int = 4

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The strategy as the settings want it."""
        return cls(settings.beam, settings.iterations, settings.patience)

    def select(self, history: History) -> list[Trial]:
        """The beam, best first: measured kernels that improved on their parent.

        Earlier members compete again, so the best kernel never leaves the beam. Variations of one
        kernel count once (`Ranking`), so that they do not fill the beam.
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
        if idle >= 2 * self.patience:
            return f"{idle} iterations in a row proposed nothing new"
        return None


class _Lines:
    """Two rankings: of what descends from the start's schedule, and of what was begun anew."""

    def __init__(self) -> None:
        self._all, self._given, self._new = Ranking(), Ranking(), Ranking()
        self._anew: set[str] = set()  # candidates

    def add(self, trial: Trial, history: History) -> None:
        """Take in the last trial of a history."""
        candidate = trial.candidate
        is_new = begins_anew(candidate) or candidate.parent_id in self._anew
        if is_new:
            self._anew.add(candidate.id)
        for ranking in (self._all, self._new if is_new else self._given):
            ranking.add(trial, history)

    def bests(self) -> list[Trial]:
        """The best kernel of each line that has one."""
        return [*self._given.best(1), *self._new.best(1)]

    def best(self, count: int) -> list[Trial]:
        """The `count` best; while the given schedule leads, two thirds of them are begun anew."""
        overall, new = self._all.best(count), self._new.best(count)
        if not new or overall[0].candidate.id in self._anew:
            return overall
        given = self._given.best(max(-(-count // 3), count - len(new)))
        chosen = (*given, *new[: count - len(given)])
        return sorted(chosen, key=lambda t: (t.latency or 0.0, t.index))
