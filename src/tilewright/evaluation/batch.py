"""The work that all executors do for a batch: look outcomes up in the cache, merge equal requests,
and keep the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.core.records import EvaluationRequest, Outcome
from tilewright.core.roles import OnOutcome
from tilewright.evaluation.outcome_cache import OutcomeCache


@dataclass(frozen=True, eq=False, slots=True)
class Pending:
    """A request that has to be evaluated, with all its positions in the batch."""

    request: EvaluationRequest
    positions: list[int]


_Key = tuple[tuple[str, ...], float | None, int]


class Batch:
    """The outcomes of one call of `Executor.evaluate`, and the callbacks that receive them."""

    def __init__(self, on_outcome: OnOutcome | None) -> None:
        self._size = 0
        self._outcomes: dict[int, Outcome] = {}
        self._unfinished: dict[_Key, Pending] = {}
        self._on_outcome = on_outcome

    def admit(self, requests: Sequence[EvaluationRequest], cache: OutcomeCache) -> list[Pending]:
        """Report the outcomes that are in the cache, and return the other requests, with equal
        requests merged.
        """
        new = []
        for request in requests:
            position = self._size
            self._size += 1
            found = cache.find(request)
            if found is not None:
                self._tell([position], found, 0.0, cached=True)
                continue
            key = _key(request)
            if key not in self._unfinished:
                self._unfinished[key] = Pending(request, [])
                new.append(self._unfinished[key])
            self._unfinished[key].positions.append(position)
        return new

    def finish(self, pending: Pending, outcome: Outcome, wall_s: float) -> None:
        """Record the outcome of a request and the seconds that it took."""
        del self._unfinished[_key(pending.request)]
        self._tell(pending.positions, outcome, wall_s, cached=False)

    def outcomes(self) -> list[Outcome]:
        """All outcomes by position."""
        return [self._outcomes[position] for position in range(self._size)]

    def _tell(
        self, positions: Sequence[int], outcome: Outcome, wall_s: float, cached: bool
    ) -> None:
        """Call the callback; only the first of several equal requests is reported with its
        seconds.
        """
        for number, position in enumerate(positions):
            self._outcomes[position] = outcome
            if self._on_outcome is not None:
                repeated = number > 0
                self._on_outcome(position, outcome, 0.0 if repeated else wall_s, cached or repeated)


def _key(request: EvaluationRequest) -> _Key:
    """A key that is the same for equal requests."""
    return request.identity, request.limit_latency, request.comparisons
