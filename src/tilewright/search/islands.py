"""Islands: several beams side by side that pass their best kernels round from time to time.

The islands share the starting kernel and deal its children out among themselves; what descends
from a child stays on its island. Within an island each *cell* has a place before any has a second:
kernels that spend most of their time on the same thing are one cell. So a kernel that waits for
memory survives beside faster ones that wait for the array, on the same island and on others.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, zip_longest

from tilewright.core.records import History, Measured, Trial
from tilewright.search.beam import BeamSearch
from tilewright.search.ranking import Ranking, has_improved

ISLANDS = 3
"""Islands, or fewer where the beam has fewer places."""
EXCHANGE_EVERY = 3
"""In every third iteration, children of an island's best kernel belong to the next island."""


@dataclass(frozen=True, slots=True)
class Islands(BeamSearch):
    """The `SearchStrategy` of island search; a pure function of the history.

    The beam's places are shared out evenly among the islands. Ends as a beam search does.
    """

    def select(self, history: History) -> list[Trial]:
        """The kernels of all islands: each one's best, then each one's second, and so on."""
        count = min(ISLANDS, self.width)
        islands = history.indexed(_Index(count)).islands
        places = [self.width // count + (n < self.width % count) for n in range(count)]
        kept = [r.best_of_cells(n) for r, n in zip(islands, places, strict=True)]
        ranks = chain.from_iterable(zip_longest(*kept))
        return list({trial.index: trial for trial in ranks if trial is not None}.values())


@dataclass(frozen=True, slots=True)
class _Index:
    """Makes the index of so many islands."""

    count: int

    def __call__(self) -> _Archipelago:
        return _Archipelago(self.count)


class _Archipelago:
    """A ranking for each island."""

    def __init__(self, count: int) -> None:
        self.islands = [Ranking(what_binds) for _ in range(count)]
        self._home: dict[str, int] = {}  # kernel -> its island; the starting kernel has none
        self._dealt = 0
        self._iteration = 0
        self._leaders: set[int] = set()  # each island's best before the iteration

    def add(self, trial: Trial, history: History) -> None:
        """Take in the last trial of a history."""
        if trial.iteration > self._iteration:
            self._iteration = trial.iteration
            self._leaders = {best.index for island in self.islands for best in island.best(1)}
        if not has_improved(trial, history):
            return
        parent = history.get(trial.candidate.parent_id or "")
        if parent is None:
            for island in self.islands:
                island.add(trial, history)
            return
        home = self._home_of_child(parent)
        self._home[trial.candidate.id] = home
        self.islands[home].add(trial, history)

    def _home_of_child(self, parent: Trial) -> int:
        home = self._home.get(parent.candidate.id)
        if home is None:
            self._dealt += 1
            return (self._dealt - 1) % len(self.islands)
        exchanged = self._iteration % EXCHANGE_EVERY == 0 and parent.index in self._leaders
        return (home + exchanged) % len(self.islands)


def what_binds(trial: Trial) -> str:
    """What a measured kernel spends most of its time on, as its breakdown says; "" if unknown."""
    breakdown = trial.outcome.breakdown if isinstance(trial.outcome, Measured) else {}
    return max(sorted(breakdown), key=lambda cause: breakdown[cause], default="")
