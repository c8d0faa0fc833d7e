"""Handles measurements that are too good: latencies below a physical floor, and latencies far below
all earlier ones.

A latency that the hardware cannot reach is refused. If a candidate is much faster than all earlier
ones, its outcome is held back until the candidate has been rebuilt in a separate process and
evaluated on new inputs. If two measured times differ, the longer one is used. If the search ends
before the second evaluation, the confirmation of the winner replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread

from tilewright.core.records import Candidate, EvaluationRequest, Failed, Measured, Outcome
from tilewright.core.roles import Checkpoint, Executor, More, OnOutcome

JUMP = 1.5
"""A candidate this many times faster than the best one so far is evaluated a second time."""

SAME_LATENCY = 0.05
"""Share by which the second evaluation may be slower, because other inputs may take other
branches.
"""

MOST_NOISE = 0.15
"""Maximum share that noise may add to `SAME_LATENCY`. Noisier measurements cannot confirm a
latency.
"""

LOOK_EVERY_S = 0.1
"""Seconds between two calls of the checkpoint while a batch only waits for a second evaluation."""

Recheck = Callable[[Candidate, float, Checkpoint], Outcome]
"""Rebuilds a candidate in a clean process and evaluates it on fresh private inputs.

The evaluation may stop above the given latency, and ends if the checkpoint raises an exception.
"""

Floor = Callable[[Measured], tuple[float, str]]
"""A latency that no kernel with these counts can beat, and the name of the bound."""


class ScreenedExecutor:
    """An `Executor` that screens the outcomes of another executor.

    Latencies are compared with the best one that this executor has evaluated. In the first batch of
    a resumed run, there is none.

    Args:
        executor: the executor that evaluates.
        floor: computes a lower bound on the latency, if one is known.
        recheck: evaluates a candidate again; without it, no outcome is held back.
        winner_is_confirmed: whether the caller evaluates the best kernel again after the search,
        and the next best one if the best is not confirmed.
    """

    def __init__(
        self,
        executor: Executor,
        *,
        floor: Floor | None = None,
        recheck: Recheck | None = None,
        winner_is_confirmed: bool = False,
    ) -> None:
        self._winner_is_confirmed = winner_is_confirmed
        self._executor = executor
        self._floor = floor
        self._recheck = recheck
        self._best: float | None = None
        self._held: list[_Held] = []

    @property
    def is_holding(self) -> bool:
        """Whether the outcome of a candidate is known and held back."""
        return bool(self._held)

    def evaluate(
        self,
        requests: Sequence[EvaluationRequest],
        on_outcome: OnOutcome | None = None,
        more: More | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> list[Outcome]:
        """Evaluate like the inner executor. Outcomes that are held back are reported later.

        One candidate at a time is evaluated again, while the inner executor continues. If a batch
        ends early, outcomes that are held back are still decided, or reported as measured if the
        winner will be confirmed, unless the user interrupts the search.
        """
        given = list(requests)
        outcomes: dict[int, Outcome] = {}
        held = self._held = []

        def tell(found: _Held) -> None:
            outcomes[found.position] = found.outcome
            candidate = given[found.position].candidate
            if isinstance(found.outcome, Measured) and not _is_baseline(candidate):
                self._best = min(found.outcome.latency, self._best or found.outcome.latency)
            if on_outcome is not None:
                on_outcome(found.position, found.outcome, found.wall_s, found.cached)

        def hear(position: int, outcome: Outcome, wall_s: float, cached: bool) -> None:
            found = _Held(position, below_floor(outcome, self._floor), wall_s, cached)
            if given[position].candidate.parent_id and self._is_jump(found.outcome):
                held.append(found)
                decide()
            else:
                tell(found)
                decide()

        def decide(wait: bool = False, again: bool = True) -> None:
            """Report the outcomes that are decided, and start the second evaluation of the fastest
            other candidate.
            """
            while held:
                pending = next((f for f in held if f.again is not None), None)
                if pending is None:
                    pending = min(held, key=lambda found: found.latency)
                    if again and self._is_jump(pending.outcome):
                        assert self._recheck is not None
                        candidate = given[pending.position].candidate
                        pending.again = _Again(self._recheck, candidate, pending.latency)
                    # otherwise a faster one was confirmed, or the winner will be confirmed
                while pending.again is not None and not pending.again.is_done():
                    if not wait:
                        return
                    pending.again.join(LOOK_EVERY_S)
                    if checkpoint is not None:
                        checkpoint()
                held.remove(pending)
                if pending.again is not None and isinstance(pending.outcome, Measured):
                    pending.outcome = decided(pending.outcome, pending.again.outcome())
                tell(pending)

        def further() -> Sequence[EvaluationRequest] | None:
            assert more is not None
            decide()
            part = more()
            given.extend(part or ())
            return part

        try:
            self._executor.evaluate(requests, hear, None if more is None else further, checkpoint)
            decide(wait=True)
        except BaseException as end:
            checkpoint = None  # it has already reported everything
            interrupted = not isinstance(end, Exception)
            if interrupted or self._winner_is_confirmed:
                for found in held:
                    found.give_up()
            while held and not interrupted:
                with suppress(Exception):  # raised by a callback that has already ended the batch
                    decide(wait=True, again=not self._winner_is_confirmed)
            raise
        return [outcomes[position] for position in range(len(given))]

    def close(self) -> None:
        """Stop the inner executor."""
        self._executor.close()

    def _is_jump(self, outcome: Outcome) -> bool:
        return (
            isinstance(outcome, Measured)
            and self._recheck is not None
            and self._best is not None
            and outcome.latency * JUMP < self._best
        )


@dataclass(slots=True)
class _Held:
    """An outcome that is held back, its position, and its second evaluation if that has begun."""

    position: int
    outcome: Outcome
    wall_s: float
    cached: bool
    again: _Again | None = None

    @property
    def latency(self) -> float:
        return self.outcome.latency if isinstance(self.outcome, Measured) else 0.0

    def give_up(self) -> None:
        """End the second evaluation if it has not finished."""
        if self.again is not None and not self.again.is_done():
            self.again.cancel()
            self.again = None


class _CancelledError(Exception):
    """Ends a second evaluation whose result is no longer needed."""


class _Again:
    """A second evaluation, which starts in its own thread when the object is constructed."""

    def __init__(self, recheck: Recheck, candidate: Candidate, latency: float) -> None:
        self._found: Outcome | Exception | None = None
        self._cancelled = Event()
        # Evaluating processes end with the thread that starts them. Therefore, the thread runs
        # until it has an outcome, and does not prevent an interrupted run from ending.
        limit = latency * (1 + SAME_LATENCY + MOST_NOISE)
        given = (recheck, candidate, limit)
        self._thread = Thread(target=self._evaluate, args=given, daemon=True)
        self._thread.start()

    def is_done(self) -> bool:
        """Whether `outcome` would return without waiting."""
        return self._found is not None

    def join(self, timeout_s: float) -> None:
        """Wait for the result for at most this time."""
        self._thread.join(timeout_s)

    def cancel(self) -> None:
        """End the evaluation soon; its outcome is not needed."""
        self._cancelled.set()

    def outcome(self) -> Outcome:
        """Wait for the outcome and return it; raises the exception of the evaluation."""
        self._thread.join()
        assert self._found is not None
        if isinstance(self._found, Exception):
            raise self._found
        return self._found

    def _evaluate(self, recheck: Recheck, candidate: Candidate, limit: float) -> None:
        try:
            self._found = recheck(candidate, limit, self._checkpoint)
        except Exception as error:
            self._found = error

    def _checkpoint(self) -> None:
        if self._cancelled.is_set():
            raise _CancelledError


def _is_baseline(candidate: Candidate) -> bool:
    """Whether a request is for a baseline, which is not part of the search."""
    return candidate.parent_id is None and candidate.proposer != "start"


def below_floor(outcome: Outcome, floor: Floor | None) -> Outcome:
    """The outcome, or a failure if the kernel is faster than possible."""
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
    """The share by which two latencies of one kernel may differ."""
    return SAME_LATENCY + min(MOST_NOISE, first.noise + again.noise)


def decided(measured: Measured, again: Outcome) -> Outcome:
    """The outcome that is used after two evaluations of a kernel.

    A measured time can be too short by chance, so if the second time is longer, it is used.
    Simulated and modelled latencies must agree.
    """
    refuted = refutation(measured, again)
    if refuted is not None and isinstance(again, Measured) and again.quantity == "measured":
        return again
    return refuted or measured


def out_of_time(measured: Measured) -> Failed:
    """The outcome of a kernel if no time was left for its second evaluation."""
    log = (
        f"{measured.latency:g} {measured.unit} was not confirmed, because the budget ended before "
        "the kernel could be evaluated again."
    )
    return Failed("measure", "unconfirmed", log, cause="out_of_time", sandbox=measured.sandbox)


def refutation(measured: Measured, again: Outcome) -> Failed | None:
    """The reason why the second evaluation contradicts the first, or None if it agrees."""
    first = f"{measured.latency:g} {measured.unit}"
    if isinstance(again, Failed):
        log = (
            f"{first} was not confirmed on new inputs, because the kernel {again.words}: "
            f"{again.log}"
        )
        return Failed("measure", "unconfirmed", log, again.line, None, again.sandbox, again.kind)
    if again.latency <= measured.latency * (1 + allowed_difference(measured, again)):
        return None
    log = (
        f"{first} was not confirmed. Built again and run on new inputs, the kernel takes "
        f"{again.latency:g}."
    )
    return Failed("measure", "unconfirmed", log, sandbox=again.sandbox)
