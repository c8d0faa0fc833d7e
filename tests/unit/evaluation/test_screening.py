"""What is too good is refused, or held back until fresh inputs bear it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from tilewright.core.records import (
    Candidate,
    Check,
    EvaluationRequest,
    Failed,
    Measured,
    Outcome,
    Verdict,
)
from tilewright.core.roles import Checkpoint, More, OnOutcome
from tilewright.evaluation.screening import (
    JUMP,
    MOST_NOISE,
    SAME_LATENCY,
    ScreenedExecutor,
    allowed_difference,
    decided,
    refutation,
)

CHECKS = Verdict((Check(1, "small"),))


def measured(latency: float) -> Measured:
    return Measured(latency, "cycles", "simulated", 0.5, CHECKS)


WRONG = Failed("check", "wrong_result", "it differs", line=3)


class Inner:
    """Finishes in reverse order; a kernel's source is its latency."""

    def __init__(self) -> None:
        self.closed = False

    def evaluate(
        self,
        requests: Sequence[EvaluationRequest],
        on_outcome: OnOutcome | None = None,
        more: More | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> list[Outcome]:
        outcomes: list[Outcome] = [measured(float(r.candidate.source)) for r in requests]
        for position in reversed(range(len(requests))):
            if on_outcome is not None:
                on_outcome(position, outcomes[position], 0.5, position == 0)
        return outcomes

    def close(self) -> None:
        self.closed = True


def start(latency: float) -> EvaluationRequest:
    return EvaluationRequest(Candidate(str(latency)))


def children(*latencies: float) -> list[EvaluationRequest]:
    return [EvaluationRequest(Candidate(str(latency), parent_id="p")) for latency in latencies]


class Rechecks:
    def __init__(self, again: Callable[[Candidate], Outcome]) -> None:
        self.asked: list[float] = []
        self._again = again

    def __call__(self, candidate: Candidate, limit: float, checkpoint: Checkpoint) -> Outcome:
        self.asked.append(float(candidate.source))
        assert limit == pytest.approx(float(candidate.source) * (1 + SAME_LATENCY + MOST_NOISE))
        return self._again(candidate)


def honest(candidate: Candidate) -> Outcome:
    return measured(float(candidate.source))


def test_small_steps_are_not_evaluated_twice() -> None:
    recheck = Rechecks(honest)
    executor = ScreenedExecutor(Inner(), recheck=recheck)
    executor.evaluate([start(1000)])
    outcomes = executor.evaluate(children(900, 1000 / JUMP, 2000))
    assert [o.latency for o in outcomes if isinstance(o, Measured)] == [900, 1000 / JUMP, 2000]
    assert recheck.asked == []


def test_a_jump_is_evaluated_again_and_kept_if_it_holds() -> None:
    recheck = Rechecks(honest)
    executor = ScreenedExecutor(Inner(), recheck=recheck)
    executor.evaluate([start(1000)])
    heard: dict[int, Outcome] = {}
    outcomes = executor.evaluate(
        children(500, 400, 990), lambda i, outcome, wall_s, cached: heard.update({i: outcome})
    )
    assert recheck.asked == [400]  # beside it, 500 is none
    assert outcomes == [measured(500), measured(400), measured(990)]
    assert heard == dict(enumerate(outcomes))
    executor.evaluate(children(300))
    assert recheck.asked == [400]
    executor.evaluate(children(100))
    assert recheck.asked == [400, 100]


def test_a_jump_that_does_not_hold_is_a_failure() -> None:
    recheck = Rechecks(lambda candidate: WRONG)
    executor = ScreenedExecutor(Inner(), recheck=recheck)
    executor.evaluate([start(1000)])
    heard: dict[int, Outcome] = {}
    outcomes = executor.evaluate(
        children(10, 950, 20), lambda i, outcome, wall_s, cached: heard.update({i: outcome})
    )
    assert sorted(recheck.asked) == [10, 20]
    for position in (0, 2):
        failed = outcomes[position]
        assert isinstance(failed, Failed)
        assert (failed.stage, failed.kind, failed.line) == ("measure", "unconfirmed", 3)
        assert "fails its check (wrong result)" in failed.log
    assert outcomes[1] == measured(950)
    assert heard == dict(enumerate(outcomes))


def test_others_are_heard_of_while_one_is_evaluated_again() -> None:
    heard: list[int] = []
    other = Event()

    def patient(candidate: Candidate, limit: float, checkpoint: Checkpoint) -> Outcome:
        assert other.wait(120.0), "all others wait for a second evaluation"
        return honest(candidate)

    def hear(position: int, outcome: Outcome, wall_s: float, cached: bool) -> None:
        heard.append(position)
        if position == 0:
            other.set()

    executor = ScreenedExecutor(Inner(), recheck=patient)
    executor.evaluate([start(1000)])
    executor.evaluate(children(990, 100), hear)  # 100 is evaluated first, by `Inner`
    assert heard == [0, 1]


def test_what_was_held_back_is_decided_when_a_batch_ends_early() -> None:
    heard: list[float] = []
    ending = Event()

    def late(candidate: Candidate, limit: float, checkpoint: Checkpoint) -> Outcome:
        assert ending.wait(120.0)
        return honest(candidate)

    def hear(position: int, outcome: Outcome, wall_s: float, cached: bool) -> None:
        assert isinstance(outcome, Measured)
        heard.append(outcome.latency)
        ending.set()
        raise TimeoutError

    executor = ScreenedExecutor(Inner(), recheck=late)
    executor.evaluate([start(1000)])
    with pytest.raises(TimeoutError):
        executor.evaluate(children(980, 990, 100), hear)
    assert heard == [990, 100]


def test_all_that_was_held_back_is_decided_when_the_budget_ends_during_the_last_recheck() -> None:
    heard: list[Outcome] = []
    all_held = Event()

    class Ended(Inner):
        def evaluate(self, *arguments: Any) -> list[Outcome]:
            outcomes = super().evaluate(*arguments)
            all_held.set()
            return outcomes

    def bogus_if_fastest(candidate: Candidate, limit: float, checkpoint: Checkpoint) -> Outcome:
        assert all_held.wait(120.0)
        return WRONG if candidate.source == "100" else honest(candidate)

    def hear(position: int, outcome: Outcome, wall_s: float, cached: bool) -> None:
        heard.append(outcome)
        raise TimeoutError

    executor = ScreenedExecutor(Ended(), recheck=bogus_if_fastest)
    executor.evaluate([start(1000)])
    all_held.clear()
    with pytest.raises(TimeoutError):
        executor.evaluate(children(500, 100), hear)
    assert [type(outcome) for outcome in heard] == [Failed, Measured]


def test_what_was_held_back_is_told_at_once_when_the_winner_is_confirmed_anyway() -> None:
    heard: list[float] = []
    cancelled = Event()

    def endless(candidate: Candidate, limit: float, checkpoint: Checkpoint) -> Outcome:
        try:
            while True:
                checkpoint()
        finally:
            cancelled.set()

    def hear(position: int, outcome: Outcome, wall_s: float, cached: bool) -> None:
        assert isinstance(outcome, Measured)
        heard.append(outcome.latency)
        raise TimeoutError

    executor = ScreenedExecutor(Inner(), recheck=endless, winner_is_confirmed=True)
    executor.evaluate([start(1000)])
    with pytest.raises(TimeoutError):
        executor.evaluate(children(980, 200, 100), hear)
    assert heard == [980, 100, 200]
    assert cancelled.wait(120.0), "a second evaluation goes on though nobody waits for it"


def test_a_batch_that_waits_for_a_second_evaluation_can_be_ended() -> None:
    heard: list[float] = []
    began = Event()

    def endless(candidate: Candidate, limit: float, checkpoint: Checkpoint) -> Outcome:
        while True:
            began.set()
            checkpoint()

    def checkpoint() -> None:
        if began.is_set():
            raise TimeoutError

    executor = ScreenedExecutor(Inner(), recheck=endless, winner_is_confirmed=True)
    executor.evaluate([start(1000)])
    with pytest.raises(TimeoutError):
        executor.evaluate(
            children(100), lambda i, outcome, *rest: heard.append(outcome.latency), None, checkpoint
        )
    assert heard == [100]


def test_a_defect_of_a_second_evaluation_is_raised() -> None:
    def broken(candidate: Candidate, limit: float, checkpoint: Checkpoint) -> Outcome:
        raise ZeroDivisionError

    executor = ScreenedExecutor(Inner(), recheck=broken)
    executor.evaluate([start(1000)])
    with pytest.raises(ZeroDivisionError):
        executor.evaluate(children(100))


def test_baselines_are_neither_jumps_nor_the_best() -> None:
    recheck = Rechecks(honest)
    executor = ScreenedExecutor(Inner(), recheck=recheck)
    executor.evaluate([start(1000)])
    executor.evaluate([EvaluationRequest(Candidate("100", proposer="tuned"))])
    assert recheck.asked == []
    executor.evaluate(children(200))
    assert recheck.asked == [200]


def test_faster_than_possible_is_invalid() -> None:
    executor = ScreenedExecutor(Inner(), floor=lambda outcome: (500.0, "the array"))
    heard: list[Outcome] = []
    outcomes = executor.evaluate(
        [start(1000), *children(499, 500)], lambda i, outcome, *rest: heard.append(outcome)
    )
    assert outcomes[0] == measured(1000)
    assert outcomes[2] == measured(500)
    failed = outcomes[1]
    assert isinstance(failed, Failed)
    assert (failed.stage, failed.kind) == ("measure", "invalid")
    assert "499 cycles is faster than possible: the array needs at least 500" in failed.log
    assert len(heard) == 3


def test_closing_closes_the_inner_executor() -> None:
    inner = Inner()
    ScreenedExecutor(inner).close()
    assert inner.closed


@pytest.mark.parametrize(
    ("again", "holds"),
    [(measured(100), True), (measured(105), True), (measured(90), True), (measured(106), False),
     (WRONG, False), (Failed("build", "timeout", "killed"), False)],
)  # fmt: skip
def test_what_refutes(again: Outcome, holds: bool) -> None:
    found = refutation(measured(100), again)
    assert (found is None) == holds
    if found is not None:
        assert found.kind == "unconfirmed"
        assert found.cause == (again.kind if isinstance(again, Failed) else "")
        assert "100 cycles" in found.log


def test_of_two_times_of_a_clock_that_differ_the_longer_counts() -> None:
    slower = noisy(130, 0.02)
    assert decided(noisy(100, 0.02), slower) == slower
    assert decided(slower, noisy(100, 0.02)) == slower, "luck at the second try is not believed"
    assert decided(noisy(100, 0.02), noisy(101, 0.02)) == noisy(100, 0.02)
    simulated = decided(measured(100), measured(130))
    assert isinstance(simulated, Failed)
    assert simulated.kind == "unconfirmed"
    assert isinstance(decided(noisy(100, 0.02), WRONG), Failed)


def noisy(latency: float, noise: float) -> Measured:
    return Measured(latency, "ns", "measured", 0.5, CHECKS, noise=noise)


def test_measured_latencies_may_differ_by_their_noise_but_not_by_any() -> None:
    assert allowed_difference(measured(100), measured(100)) == SAME_LATENCY
    assert refutation(noisy(100, 0.02), noisy(108.5, 0.02)) is None
    assert refutation(noisy(100, 0.02), noisy(110, 0.02)) is not None
    assert allowed_difference(noisy(100, 3.0), noisy(100, 3.0)) == SAME_LATENCY + MOST_NOISE


def test_a_failed_outcome_is_passed_on() -> None:
    class Failing(Inner):
        def evaluate(
            self,
            requests: Sequence[EvaluationRequest],
            on_outcome: OnOutcome | None = None,
            more: More | None = None,
            checkpoint: Checkpoint | None = None,
        ) -> list[Outcome]:
            assert on_outcome is not None
            on_outcome(0, replace(WRONG), 0.1, False)
            return [WRONG]

    executor = ScreenedExecutor(
        Failing(), floor=lambda outcome: (1e9, "x"), recheck=Rechecks(honest)
    )
    assert executor.evaluate(children(5)) == [WRONG]


def test_an_executor_says_whether_it_holds_an_outcome_back() -> None:
    seen: list[bool] = []

    def again(candidate: Candidate) -> Outcome:
        seen.append(executor.is_holding)
        return honest(candidate)

    executor = ScreenedExecutor(Inner(), recheck=Rechecks(again))
    executor.evaluate([start(1000)])
    assert not executor.is_holding
    executor.evaluate(children(400))
    assert seen == [True]
    assert not executor.is_holding
