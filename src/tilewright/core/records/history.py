"""The trials of a run, and the read-only history from which its next step starts."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Any, Protocol, Self, TypeVar

from tilewright.core.records.outcomes import Measured, Outcome
from tilewright.core.records.proposals import Candidate


@dataclass(frozen=True, slots=True)
class Trial:
    """One evaluated candidate of a run. `index` counts from 0, the starting kernel.

    >>> import tilewright as tw
    >>> run = tw.open_run("latest")
    >>> trial = run.history[0]
    >>> trial.index, trial.iteration, trial.candidate.parent_id, trial.latency >= run.best.latency
    (0, 0, None, True)
    """

    index: int
    iteration: int
    candidate: Candidate
    outcome: Outcome
    wall_s: float = 0.0
    cached: bool = False

    @property
    def latency(self) -> float | None:
        """Latency if measured, else None."""
        return self.outcome.latency if isinstance(self.outcome, Measured) else None

    @property
    def precision(self) -> str:
        """Class of precision if measured and known, else empty."""
        return self.outcome.verdict.precision if isinstance(self.outcome, Measured) else ""


class HistoryIndex(Protocol):
    """Data that a strategy or a proposer derives from a history, which the history updates."""

    def add(self, trial: Trial, history: History) -> None:
        """Add the last trial of `history`."""
        ...


Index = TypeVar("Index", bound=HistoryIndex)


class History(Sequence[Trial]):
    """Read-only view of a run's trials in the order in which they were recorded.

    A history shares one list and its indices with the histories that extend it. The cost of an
    extension depends only on the number of added trials, and no query becomes slower as the
    history grows.

    >>> import tilewright as tw
    >>> history = tw.open_run("latest").history
    >>> [trial.index for trial in history.lineage(history[1].candidate.id)]
    [0, 1]
    """

    def __init__(self, trials: Iterable[Trial] = ()) -> None:
        self._log = _Log()
        for trial in trials:
            self._log.append(trial)
        self._length = len(self._log.trials)

    @classmethod
    def _view(cls, log: _Log, length: int) -> Self:
        view = cls.__new__(cls)
        view._log, view._length = log, length
        return view

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        """Trial at `index` (or a tuple of trials for a slice)."""
        found = range(self._length)[index]
        trials = self._log.trials
        return trials[found] if isinstance(found, int) else tuple(trials[i] for i in found)

    def __iter__(self) -> Iterator[Trial]:
        return islice(self._log.trials, self._length)

    def get(self, candidate_id: str) -> Trial | None:
        """First trial of the candidate with this content id."""
        position = self._log.first_of.get(candidate_id, self._length)
        return self._log.trials[position] if position < self._length else None

    def children(self, candidate_id: str) -> list[Trial]:
        """Trials of the candidates that were made from this candidate, in order."""
        positions = self._log.children_of.get(candidate_id, ())
        return [self._log.trials[i] for i in positions[: bisect_left(positions, self._length)]]

    def extended(self, trials: Sequence[Trial]) -> History:
        """A history with `trials` appended; the present history does not change."""
        log = self._log if self._length == len(self._log.trials) else History(self)._log
        for trial in trials:
            log.append(trial)
        return self._view(log, len(log.trials))

    def before(self, iteration: int) -> History:
        """The trials of the iterations before this one."""
        later = bisect_left(self._log.iterations, iteration)
        starts = self._log.starts
        length = starts[later] if later < len(starts) else self._length
        return self._view(self._log, min(length, self._length))

    def since(self, earlier: History) -> tuple[Trial, ...] | None:
        """The trials after those of `earlier`, or None if this history does not extend it."""
        if earlier._log is not self._log or earlier._length > self._length:
            return None
        return tuple(self[earlier._length :])

    def iterations_after(self, iteration: int) -> int:
        """The number of iterations after this one that have a trial."""
        known = bisect_left(self._log.starts, self._length)
        return max(0, known - bisect_right(self._log.iterations, iteration))

    def indexed(self, kind: Callable[[], Index]) -> Index:
        """The index that `kind` constructs, with all trials of this history.

        Calls with the same `kind` share one index. Read the index immediately, because a later
        history adds its trials to the same index. A history that is older than the index
        constructs a new one.
        """
        with self._log.lock:
            known, found = self._log.indices.get(kind, (0, None))
            is_older = found is not None and known > self._length
            index: Index = kind() if found is None or is_older else found
            for length in range(1 if is_older else known + 1, self._length + 1):
                index.add(self._log.trials[length - 1], self._view(self._log, length))
            if not is_older:
                self._log.indices[kind] = self._length, index
            return index

    @property
    def baseline(self) -> Trial | None:
        """The starting kernel's trial, if it was evaluated."""
        return self[0] if self._length else None

    @property
    def best(self) -> Trial | None:
        """The measured trial with the lowest latency; of several such trials, the earliest."""
        found = bisect_left(self._log.records, self._length)
        return self._log.trials[self._log.records[found - 1]] if found else None

    def lineage(self, candidate_id: str) -> list[Trial]:
        """Trials from the starting kernel to this candidate, in order."""
        chain: list[Trial] = []
        current = self.get(candidate_id)
        seen: set[str] = set()
        while current is not None and current.candidate.id not in seen:
            chain.append(current)
            seen.add(current.candidate.id)
            parent = current.candidate.parent_id
            current = self.get(parent) if parent else None
        return chain[::-1]


class _Log:
    """The trials that histories share, and indices of positions in them."""

    def __init__(self) -> None:
        self.trials: list[Trial] = []
        self.first_of: dict[str, int] = {}  # candidate -> its first trial
        self.children_of: dict[str, array[int]] = {}  # candidate -> trials made from it
        self.records: list[int] = []  # trials that were better than all before
        self.iterations: list[int] = []  # those with trials
        self.starts: list[int] = []  # the first trial of each of them
        self.indices: dict[Callable[[], HistoryIndex], tuple[int, Any]] = {}
        self.lock = Lock()

    def append(self, trial: Trial) -> None:
        position, candidate = len(self.trials), trial.candidate
        if position == trial.index:
            position = trial.index  # reuses the integer object of the first trial, to save memory
        self.trials.append(trial)
        self.first_of.setdefault(candidate.id, position)
        if candidate.parent_id is not None:
            self.children_of.setdefault(candidate.parent_id, array("q")).append(position)
        if not self.iterations or trial.iteration > self.iterations[-1]:
            self.iterations.append(trial.iteration)
            self.starts.append(position)
        best = self.trials[self.records[-1]].latency if self.records else None
        if trial.latency is not None and (best is None or trial.latency < best):
            self.records.append(position)
