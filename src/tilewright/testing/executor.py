"""Contract suite of the `Executor` role.

Subclass `ExecutorContract` in a test module and define the fixture `open_executor`, which opens an
executor for the scripted task (`tilewright.testing.scripted`). Pytest collects the inherited tests.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Protocol

import pytest

from tilewright.core.errors import WorkloadError
from tilewright.core.records import (
    Candidate,
    EvaluationRequest,
    Failed,
    Measured,
    Outcome,
)
from tilewright.core.roles import Executor


class OpenExecutor(Protocol):
    """A function that opens an executor with two workers, which stops every stage that takes longer
    than about a second.
    """

    def __call__(
        self,
        lookup: Callable[[str], Outcome | None] | None = None,
        store: Callable[[str, Outcome], None] | None = None,
    ) -> Executor:
        """Open an executor, with an outcome cache if `lookup` and `store` are given."""
        ...


def request(source: str, limit: float | None = None) -> EvaluationRequest:
    """A request to evaluate a scripted kernel."""
    return EvaluationRequest(Candidate(source), limit)


def latency(outcome: Outcome) -> float:
    """The latency of an outcome, which must be a measurement."""
    assert isinstance(outcome, Measured), outcome
    return outcome.latency


def kind(outcome: Outcome) -> str:
    """The kind of an outcome, which must be a failure."""
    assert isinstance(outcome, Failed), outcome
    return outcome.kind


class ExecutorContract:
    """Tests that every executor must pass."""

    @pytest.fixture
    def open_executor(self) -> OpenExecutor:
        """Opens the executor under test; defined by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    def executor(self, open_executor: OpenExecutor) -> Executor:
        """An executor without a cache."""
        return open_executor()

    def test_outcomes_are_in_the_order_of_the_requests(self, executor: Executor) -> None:
        """Outcomes have the order of the requests, even if the first evaluation takes longest."""
        requests = [request("sleep 0.3\nlatency 1")]
        requests += [request(f"latency {n}") for n in range(2, 9)]
        assert [latency(o) for o in executor.evaluate(requests)] == list(range(1, 9))

    def test_on_outcome_hears_each_request_once(self, executor: Executor) -> None:
        """`on_outcome` is called once for each request, with the outcome that is returned at its
        position."""
        heard: dict[int, Outcome] = {}

        def on_outcome(position: int, outcome: Outcome, wall_s: float, cached: bool) -> None:
            assert position not in heard
            assert wall_s >= 0
            assert not cached
            heard[position] = outcome

        outcomes = executor.evaluate([request(f"latency {n}") for n in range(1, 6)], on_outcome)
        assert [heard[i] for i in range(5)] == outcomes

    def test_a_batch_may_grow_while_it_is_evaluated(self, executor: Executor) -> None:
        """Requests may be added to a batch while it is evaluated, depending on earlier outcomes."""
        heard: list[int] = []
        parts = iter([[request("latency 1")], [], [request("latency 2"), request("latency 1")]])

        def more() -> list[EvaluationRequest] | None:
            return next(parts, None) if heard else []

        outcomes = executor.evaluate(
            [request("latency 3")], lambda position, *rest: heard.append(position), more
        )
        assert [latency(o) for o in outcomes] == [3, 1, 2, 1]
        assert sorted(heard) == [0, 1, 2, 3]

    def test_a_checkpoint_ends_a_batch_whose_evaluations_go_on(self, executor: Executor) -> None:
        """The checkpoint is called even if no evaluation finishes. After it ended the batch, the
        executor can still be used."""
        # Workers that start call the checkpoint, too.
        executor.evaluate([request("latency 1"), request("latency 2")])
        calls = 0

        def checkpoint() -> None:
            nonlocal calls
            calls += 1
            if calls > 3:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            executor.evaluate([request("sleep 600"), request("sleep 600")], checkpoint=checkpoint)
        assert latency(executor.evaluate([request("latency 1")])[0]) == 1

    def test_no_requests_no_outcomes(self, executor: Executor) -> None:
        """An empty batch gives an empty list."""
        assert executor.evaluate([]) == []

    def test_failures_of_each_stage_are_returned(self, executor: Executor) -> None:
        """A failure in any stage gives a record with the stage and the line."""
        stages = ("build", "check", "measure")
        outcomes = executor.evaluate([request(f"fail {stage} wrong_result") for stage in stages])
        for stage, outcome in zip(stages, outcomes, strict=True):
            assert isinstance(outcome, Failed)
            assert (outcome.stage, outcome.kind, outcome.line) == (stage, "wrong_result", 1)

    @pytest.mark.parametrize(
        ("script", "expected"),
        [
            ("exit 3", "crash"),
            (f"signal {int(signal.SIGSEGV)}", "crash"),
            (f"signal {int(signal.SIGKILL)}", "crash"),
            ("raise an odd error", "crash"),
            ("sleep 600", "timeout"),
            (f"signal {int(signal.SIGSTOP)}", "timeout"),
        ],
    )
    def test_a_lost_worker_costs_one_candidate(
        self, executor: Executor, script: str, expected: str
    ) -> None:
        """If a worker process dies, only its candidate fails; the rest of the batch and the next
        batch are evaluated."""
        batch = [request("latency 1"), request(script), request("latency 3")]
        first, lost, third = executor.evaluate(batch)
        assert (latency(first), kind(lost), latency(third)) == (1, expected, 3)
        assert latency(executor.evaluate([request("latency 4")])[0]) == 4

    def test_an_error_that_is_not_the_candidates_is_raised(self, executor: Executor) -> None:
        """An error that is not the candidate's fault is raised with its class and message, and the
        executor can still be used."""
        with pytest.raises(WorkloadError, match=r"the reference is broken\."):
            executor.evaluate([request("user-error the reference is broken.")])
        assert latency(executor.evaluate([request("latency 5")])[0]) == 5

    def test_an_exception_in_on_outcome_leaves_the_executor_usable(
        self, executor: Executor
    ) -> None:
        """An exception in `on_outcome` is raised by `evaluate` and cancels the evaluations in
        progress."""

        def interrupt(position: int, outcome: Outcome, wall_s: float, cached: bool) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            executor.evaluate([request("latency 1"), request("sleep 5\nlatency 2")], interrupt)
        outcomes = executor.evaluate([request("latency 3"), request("latency 4")])
        assert [latency(o) for o in outcomes] == [3, 4]

    def test_the_cache_answers_what_is_known(self, open_executor: OpenExecutor) -> None:
        """A second executor with the same cache does not repeat any evaluation."""
        kept: dict[str, Outcome] = {}
        requests = [request("latency 1"), request("fail build compile_error")]
        first = open_executor(kept.get, kept.__setitem__).evaluate(requests)
        assert len(kept) == 2
        flags = []
        second = open_executor(kept.get, kept.__setitem__).evaluate(
            requests, lambda position, outcome, wall_s, cached: flags.append(cached)
        )
        assert second == first
        assert flags == [True, True]

    def test_too_slow_under_one_limit_may_be_measured_under_a_higher_one(
        self, open_executor: OpenExecutor
    ) -> None:
        """An outcome that was stopped at a limit is not used to answer a request with a higher
        limit."""
        kept: dict[str, Outcome] = {}
        executor = open_executor(kept.get, kept.__setitem__)
        source = "latency 100"
        assert kind(executor.evaluate([request(source, 50)])[0]) == "slower_than_limit"
        assert latency(executor.evaluate([request(source, 200)])[0]) == 100
        assert latency(executor.evaluate([request(source)])[0]) == 100

    def test_what_the_machine_did_is_not_cached(self, open_executor: OpenExecutor) -> None:
        """Crashes and time-outs are not cached, because they may not happen again."""
        kept: dict[str, Outcome] = {}
        executor = open_executor(kept.get, kept.__setitem__)
        executor.evaluate([request("exit 3"), request("sleep 600")])
        assert kept == {}

    def test_equal_requests_are_evaluated_once(self, open_executor: OpenExecutor) -> None:
        """Equal requests are evaluated once. All get the outcome, and one of them also gets the
        time."""
        stored: list[str] = []
        executor = open_executor(store=lambda key, outcome: stored.append(key))
        times = []
        executor.evaluate(
            [request("sleep 0.1\nlatency 7")] * 3,
            lambda position, outcome, wall_s, cached: times.append((latency(outcome), cached)),
        )
        assert times == [(7, False), (7, True), (7, True)]
        assert len(stored) == 1

    def test_close_is_idempotent(self, executor: Executor) -> None:
        """`close` may be called more than once, and before anything was evaluated."""
        executor.close()
        executor.close()
