"""ManyThreads: nothing waits for what it does not need, and order never depends on time."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from tilewright.core.budget import Budget
from tilewright.core.config import Settings
from tilewright.core.records import (
    Brief,
    Candidate,
    EvaluationRequest,
    History,
    Outcome,
    Plan,
    Trial,
)
from tilewright.core.roles import Checkpoint, More, OnOutcome
from tilewright.search.beam import BeamSearch
from tilewright.search.events import Event, OnEvent, ProposalFailed
from tilewright.search.in_process import ManyThreads
from tilewright.search.loop import Search
from tilewright.search.proposing import Batches
from tilewright.search.steps import SearchTask
from tilewright.testing.search import toy_history
from tilewright.testing.toy import (
    START,
    ToyProposer,
    ToyTarget,
    ToyTask,
    digits_of,
    toy_outcome,
    whole_batch,
)

SOON_S = 20.0
"""Far longer than anything here takes: a wait that ends by it was for something that never came."""


class Streaming(ToyProposer):
    """Gives its plans one by one, each after a random while; repairs by lifting digits to 0."""

    waits = True

    def __init__(self, delay_s: float = 0.0) -> None:
        self._delay_s = delay_s
        self.implementing = threading.Event()
        self.repairing = threading.Event()

    def pause(self) -> None:
        time.sleep(random.random() * self._delay_s)

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan]:
        for plan in self.plan(brief, parent, history, count, seed):
            self.pause()
            yield plan

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        self.implementing.set()
        self.pause()
        return super().implement(brief, parent, plan, count, seed)

    def respond(
        self, brief: Brief, parent: Trial, trials: Sequence[Trial], history: History, seed: int
    ) -> list[Candidate]:
        self.repairing.set()
        self.pause()
        digits = [max(0, digit) for digit in digits_of(trials[0].candidate.source)]
        source = f"toy {' '.join(map(str, digits))}  # repaired {seed % 10}"
        return [Candidate(source, parent.candidate.id, trials[0].candidate.plan, self.name)]


class Executor:
    """Evaluates in order."""

    def evaluate(
        self,
        requests: Sequence[EvaluationRequest],
        on_outcome: OnOutcome | None = None,
        more: More | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for position, request in enumerate(whole_batch(requests, more)):
            outcomes.append(toy_outcome(request.candidate.source, request.limit_latency))
            if on_outcome is not None:
                on_outcome(position, outcomes[-1], 0.0, False)
        return outcomes

    def close(self) -> None:
        pass


def batches_of(proposer: ToyProposer, on_event: OnEvent, **settings: object) -> Batches:
    made = Settings(**{"dropout": 0.0, **settings})  # type: ignore[arg-type]
    task = SearchTask(ToyTask.workload, ToyTarget().brief(), proposer, made)
    return Batches(task, BeamSearch(), ManyThreads(task), on_event)


def searched(
    proposer: ToyProposer,
    executor: Executor,
    trials: list[Trial],
    iterations: int = 8,
    budget: Budget = Budget(),  # noqa: B008
    wall_s: Callable[[], float] = lambda: 0.0,
) -> tuple[History, str]:
    found = Search(
        strategy=BeamSearch(3, iterations, iterations),
        batches=batches_of(proposer, lambda event: None, iterations=iterations),
        executor=executor,
        append=trials.append,
        iterations=iterations,
        budget=budget,
        wall_s=wall_s,
        on_event=lambda event: None,
        rounds=1,
    )
    return found.run(found.evaluate_start(Candidate(START)))


def search(proposer: ToyProposer, executor: Executor) -> list[Trial]:
    trials: list[Trial] = []
    searched(proposer, executor, trials)
    return trials


class LastPlanWaits(Streaming):
    """Its last plan is known only once an earlier one is being implemented."""

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan]:
        plans = self.plan(brief, parent, history, count, seed)
        yield from plans[:-1]
        assert self.implementing.wait(SOON_S), "no plan is implemented before all are known"
        yield plans[-1]


def test_a_plan_is_implemented_while_others_are_still_made() -> None:
    start = History([Trial(0, 0, Candidate(START), toy_outcome(START))])
    events: list[Event] = []
    batches = batches_of(LastPlanWaits(), events.append, plans=5)
    made = [request for part in batches.stream(1, list(start), start) for request in part]
    batches.end()
    assert not [e for e in events if isinstance(e, ProposalFailed)]
    assert len({r.candidate.plan.option for r in made if r.candidate.plan}) == 5


class WaitsForRepair(Executor):
    """The last evaluation of a batch ends only when an earlier failure is being repaired."""

    def __init__(self, proposer: Streaming) -> None:
        self._proposer = proposer
        self.seen = 0

    def evaluate(
        self,
        requests: Sequence[EvaluationRequest],
        on_outcome: OnOutcome | None = None,
        more: More | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> list[Outcome]:
        requests = whole_batch(requests, more)
        if not requests:
            return []
        outcomes = super().evaluate(requests[:-1], on_outcome)
        if any(getattr(o, "kind", "") == "wrong_result" for o in outcomes):
            self.seen += 1
            assert self._proposer.repairing.wait(SOON_S), "repairs wait for the whole round"
        position = len(requests) - 1
        outcome = toy_outcome(requests[-1].candidate.source, requests[-1].limit_latency)
        if on_outcome is not None:
            on_outcome(position, outcome, 0.0, False)
        return [*outcomes, outcome]


def test_a_failure_is_repaired_while_others_are_still_evaluated() -> None:
    proposer = Streaming()
    executor = WaitsForRepair(proposer)
    search(proposer, executor)
    assert executor.seen


@pytest.mark.parametrize("attempt", range(3))
def test_the_trials_do_not_depend_on_time(attempt: int) -> None:
    slow = search(Streaming(delay_s=0.005), Executor())
    assert slow == search(Streaming(), Executor())
    assert any("repaired" in trial.candidate.source for trial in slow)


class BreaksAfterOne(Streaming):
    """Has a defect that shows after its first plan."""

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan]:
        yield self.plan(brief, parent, history, count, seed)[0]
        raise ZeroDivisionError


def test_a_defect_costs_the_plans_after_it() -> None:
    history = toy_history(1, 40)
    heard: list[tuple[int, Event]] = []
    batches = batches_of(
        BreaksAfterOne(), lambda event: heard.append((threading.get_ident(), event))
    )
    parents = BeamSearch().select(history)
    made = [request for part in batches.stream(3, parents, history) for request in part]
    batches.end()
    failures = [e for _, e in heard if isinstance(e, ProposalFailed)]
    assert {thread for thread, _ in heard} == {threading.get_ident()}
    assert len(failures) == len(parents)
    assert all("ZeroDivisionError" in e.log for e in failures)
    assert made


class RemembersRepairs(Streaming):
    def __init__(self) -> None:
        super().__init__()
        self.repaired: list[str] = []

    def respond(
        self, brief: Brief, parent: Trial, trials: Sequence[Trial], history: History, seed: int
    ) -> list[Candidate]:
        self.repaired.append(trials[0].candidate.id)
        return super().respond(brief, parent, trials, history, seed)


def test_what_fails_is_repaired_once() -> None:
    """Begun as soon as it failed, and not again when the corrections are asked for."""
    proposer = RemembersRepairs()
    trials = search(proposer, Executor())
    assert any("repaired" in trial.candidate.source for trial in trials)
    assert len(proposer.repaired) == len(set(proposer.repaired))


class Waits(Streaming):
    """Waits for what the test lets happen only afterwards, in one of its steps."""

    def __init__(self, step: str) -> None:
        super().__init__()
        self.step = step
        self.waiting = threading.Event()
        self.over = threading.Event()
        self.waited_in_vain = False

    def wait_in(self, step: str) -> None:
        if step == self.step:
            self.waiting.set()
            self.waited_in_vain |= not self.over.wait(SOON_S)

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan]:
        self.wait_in("plan")
        yield from super().each_plan(brief, parent, history, count, seed)

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        self.wait_in("implement")
        return super().implement(brief, parent, plan, count, seed)

    def respond(
        self, brief: Brief, parent: Trial, trials: Sequence[Trial], history: History, seed: int
    ) -> list[Candidate]:
        self.wait_in("repair")
        return super().respond(brief, parent, trials, history, seed)


@pytest.mark.parametrize("step", ["plan", "implement", "repair"])
def test_the_wall_time_ends_the_waiting_for_what_is_proposed(step: str) -> None:
    proposer = Waits(step)
    _, reason = searched(
        proposer,
        Executor(),
        [],
        budget=Budget(wall_s=1.0),
        wall_s=lambda: 2.0 if proposer.waiting.is_set() else 0.0,
    )
    proposer.over.set()
    assert " s is spent" in reason
    assert not proposer.waited_in_vain
