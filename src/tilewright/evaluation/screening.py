"""Measurements that are too good: below a physical floor, or far ahead of all others.

A latency below what the hardware can reach is no result. One that is far ahead of everything seen
so far is held back until the candidate was rebuilt from source in a process of its own and
checked on inputs that no other check has used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tilewright.core.records import Candidate, EvaluationRequest, Failed, Measured, Outcome
from tilewright.core.roles import Executor, OnOutcome

JUMP = 1.5
"""A candidate this many times faster than the best one so far is evaluated a second time."""

SAME_LATENCY = 0.05
"""How much slower the second evaluation may be: other inputs take other branches."""

MOST_NOISE = 0.15
"""What noise may add to that: what varies more says too little to confirm anything."""

Recheck = Callable[[Candidate], Outcome]
"""Rebuilds a candidate in a clean process and evaluates it on fresh private inputs."""

Floor = Callable[[Measured], tuple[float, str]]
"""Latency that no kernel with these counts can beat, and what says so."""


class ScreenedExecutor:
    """The `Executor` role around another one.

    The best latency is that of what this executor has evaluated: the first batch of a run that
    goes on has nothing to be compared with.
    """

    def __init__(
        self,
        executor: Executor,
        *,
        floor: Floor | None = None,
        recheck: Recheck | None = None,
    ) -> None:
        self._executor = executor
        self._floor = floor
        self._recheck = recheck
        self._best: float | None = None

    def evaluate(
        self, requests: Sequence[EvaluationRequest], on_outcome: OnOutcome | None = None
    ) -> list[Outcome]:
        """As the inner executor; what is held back is heard of last."""
        outcomes: dict[int, Outcome] = {}
        held: list[tuple[int, Measured, float, bool]] = []

        def hear(position: int, outcome: Outcome, wall_s: float, cached: bool) -> None:
            outcome = below_floor(outcome, self._floor)
            candidate = requests[position].candidate
            if isinstance(outcome, Measured) and candidate.parent_id and self._is_jump(outcome):
                held.append((position, outcome, wall_s, cached))
                return
            outcomes[position] = outcome
            if on_outcome is not None:
                on_outcome(position, outcome, wall_s, cached)

        self._executor.evaluate(requests, hear)
        for position, measured, wall_s, cached in sorted(held, key=lambda item: item[1].latency):
            outcome = self._confirmed(requests[position].candidate, measured)
            outcomes[position] = outcome
            if on_outcome is not None:
                on_outcome(position, outcome, wall_s, cached)
        found = [outcomes[position] for position in range(len(requests))]
        for request, outcome in zip(requests, found, strict=True):
            if isinstance(outcome, Measured) and not _is_baseline(request.candidate):
                self._best = min(outcome.latency, self._best or outcome.latency)
        return found

    def close(self) -> None:
        """Stop the inner executor."""
        self._executor.close()

    def _is_jump(self, measured: Measured) -> bool:
        return (
            self._recheck is not None
            and self._best is not None
            and measured.latency * JUMP < self._best
        )

    def _confirmed(self, candidate: Candidate, measured: Measured) -> Outcome:
        if self._recheck is None or not self._is_jump(measured):
            return measured  # a faster one of the same batch was confirmed
        refuted = refutation(measured, self._recheck(candidate))
        if refuted is None:
            self._best = measured.latency
            return measured
        return refuted


def _is_baseline(candidate: Candidate) -> bool:
    """Kernels that a target compares results with are no part of the search."""
    return candidate.parent_id is None and candidate.proposer != "start"


def below_floor(outcome: Outcome, floor: Floor | None) -> Outcome:
    """The outcome, or the failure of one that is faster than possible."""
    if floor is None or not isinstance(outcome, Measured):
        return outcome
    least, bound = floor(outcome)
    if outcome.latency >= least:
        return outcome
    log = (
        f"{outcome.latency:g} {outcome.unit} is faster than possible: {bound} needs at least "
        f"{least:g} {outcome.unit}, so the measurement is wrong."
    )
    return Failed("measure", "invalid", log, sandbox=outcome.sandbox)


def allowed_difference(first: Measured, again: Measured) -> float:
    """By how much two evaluations of a kernel may differ, relative to the latency, and agree."""
    return SAME_LATENCY + min(MOST_NOISE, first.noise + again.noise)


def refutation(measured: Measured, again: Outcome) -> Failed | None:
    """Why a second evaluation does not bear out the first, or None if it does."""
    first = f"{measured.latency:g} {measured.unit}"
    if isinstance(again, Failed):
        log = f"{first} was not confirmed on fresh inputs: {again.stage}, {again.kind}: {again.log}"
        return replace(again, stage="measure", kind="unconfirmed", log=log, bound=None)
    if again.latency <= measured.latency * (1 + allowed_difference(measured, again)):
        return None
    log = f"{first} was not confirmed: rebuilt, on fresh inputs, it takes {again.latency:g}."
    return Failed("measure", "unconfirmed", log, sandbox=again.sandbox)
