"""The cache of outcomes, so that an evaluation under the same conditions is not repeated."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.core.records import (
    EvaluationRequest,
    Failed,
    LatencyKind,
    Measured,
    Outcome,
    content_id,
)

Lookup = Callable[[str], Outcome | None]
"""Outcome stored under a key, if any."""

Store = Callable[[str, Outcome], None]
"""Stores an outcome under a key, unless the key already has one."""

_NOT_REPEATABLE = ("timeout", "crash")  # the machine, not the candidate, may have caused them


class OutcomeCache:
    """Finds and stores outcomes; `context` is the hash of everything that determines an outcome,
    except the request. An outcome with a latency of another kind than `latency` is not used,
    because the search would compare numbers that mean different things.
    """

    def __init__(self, context: str, latency: LatencyKind, lookup: Lookup, store: Store) -> None:
        self.context = context
        self._latency = latency
        self._lookup = lookup
        self._store = store

    def find(self, request: EvaluationRequest) -> Outcome | None:
        """An outcome that answers the request.

        The outcome of a candidate that was stopped as too slow is used only if its latency exceeds
        the limit of this request.
        """
        found = self._lookup(self._key(request))
        if found is None and request.limit_latency is not None:
            found = self._lookup(self._limited_key(request))
        if found is None or (isinstance(found, Measured) and not found.is_of(self._latency)):
            return None
        return found if _answers(found, request) else None

    def keep(self, request: EvaluationRequest, outcome: Outcome) -> None:
        """Store an outcome, unless another attempt could have a different outcome."""
        if isinstance(outcome, Failed) and outcome.kind in _NOT_REPEATABLE:
            return
        limited = isinstance(outcome, Failed) and outcome.kind == "slower_than_limit"
        self._store(self._limited_key(request) if limited else self._key(request), outcome)

    def _key(self, request: EvaluationRequest) -> str:
        return content_id(self.context, *request.identity)

    def _limited_key(self, request: EvaluationRequest) -> str:
        """Key of a `slower_than_limit`, which differs from that of a complete measurement."""
        return content_id(self.context, *request.identity, repr(request.limit_latency))


def _answers(outcome: Outcome, request: EvaluationRequest) -> bool:
    limit_latency = request.limit_latency
    if isinstance(outcome, Measured) and len(outcome.verdict.checks) < request.comparisons:
        return False
    if not isinstance(outcome, Failed) or outcome.kind != "slower_than_limit":
        return True
    return limit_latency is not None and (outcome.bound or 0.0) >= limit_latency
