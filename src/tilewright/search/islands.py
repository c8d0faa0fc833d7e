"""The strategy islands: several beams, which exchange their best kernels from time to time.

The children of the starting kernel are assigned to the islands in turn, and the descendants of a
child stay on the child's island. Kernels with the same largest cause of latency form a *cell*. The
beam of an island contains the best kernel of every cell before it contains a second kernel of any
cell. A kernel that waits for memory is therefore kept in addition to faster kernels that wait for
the array.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, zip_longest

from tilewright.core.records import History, Measured, Trial
from tilewright.search.beam import BeamSearch
from tilewright.search.ranking import Ranking, has_improved

ISLANDS = 3
"""Number of islands; there are fewer if the beam is smaller."""
EXCHANGE_EVERY = 3
"""In every third iteration, the children of an island's best kernel are assigned to the next
island.
"""


@dataclass(frozen=True, slots=True)
class Islands(BeamSearch):
    """The `SearchStrategy` islands, whose results depend only on the history.

    The beam is divided evenly among the islands. The search ends under the same conditions as a
    beam search.
    """

    def select(self, history: History) -> list[Trial]:
        """The best kernel of each island, then the second-best kernel of each island, and so on."""
        count = min(ISLANDS, self.width)
        islands = history.indexed(_Index(count)).islands
        places = [self.width // count + (n < self.width % count) for n in range(count)]
        kept = [r.best_of_cells(n) for r, n in zip(islands, places, strict=True)]
        ranks = chain.from_iterable(zip_longest(*kept))
        return list({trial.index: trial for trial in ranks if trial is not None}.values())


@dataclass(frozen=True, slots=True)
class _Index:
    """Constructs the index for a number of islands."""

    count: int

    def __call__(self) -> _Archipelago:
        return _Archipelago(self.count)


class _Archipelago:
    """A ranking for each island."""

    def __init__(self, count: int) -> None:
        self.islands = [Ranking(largest_cause) for _ in range(count)]
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


def largest_cause(trial: Trial) -> str:
    """The cause in the breakdown on which a measured kernel spends most of its time; "" if
    unknown.
    """
    breakdown = trial.outcome.breakdown if isinstance(trial.outcome, Measured) else {}
    return max(sorted(breakdown), key=lambda cause: breakdown[cause], default="")
