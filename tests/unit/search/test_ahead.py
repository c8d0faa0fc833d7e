"""OneThread: candidates are made while others are evaluated, the same ones in the same order."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tilewright.core.config import Settings
from tilewright.core.records import Brief, Candidate, EvaluationRequest, History, Plan, Trial
from tilewright.search.beam import BeamSearch
from tilewright.search.events import Event, Implemented, Planned
from tilewright.search.in_process import OneThread, StepByStep
from tilewright.search.proposing import Batches, Way
from tilewright.search.steps import SearchTask
from tilewright.testing.search import toy_history
from tilewright.testing.toy import ToyProposer, ToyTarget, ToyTask

SOON_S = 20.0
"""Far longer than anything here takes: a wait that ends by it was for something that never came."""


class Watched(ToyProposer):
    """Implements its second plan only once it is allowed to; remembers who called."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.implemented = 0
        self.callers: set[int] = set()

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        self.callers.add(threading.get_ident())
        if self.implemented == 1:
            assert self.may_go_on.wait(SOON_S), "all is made before anything is evaluated"
        self.implemented += 1
        return super().implement(brief, parent, plan, count, seed)


def batches_of(
    make: Callable[[SearchTask], Way], proposer: ToyProposer, events: list[Event]
) -> Batches:
    settings = Settings(plans=4, dropout=0.0)
    task = SearchTask(ToyTask.workload, ToyTarget().brief(), proposer, settings)
    return Batches(task, BeamSearch(), make(task), events.append)


def parents_of(history: History) -> list[Trial]:
    return [t for t in history if t.latency is not None][:3]


def made_by(make: Callable[[SearchTask], Way], events: list[Event]) -> list[EvaluationRequest]:
    history = toy_history(1, 12)
    parts = batches_of(make, ToyProposer(), events).stream(3, parents_of(history), history)
    return [request for part in parts for request in part]


def test_the_same_candidates_come_in_the_same_order() -> None:
    plain: list[Event] = []
    ahead: list[Event] = []
    expected = made_by(StepByStep, plain)
    assert len(expected) > 5
    assert made_by(OneThread, ahead) == expected
    assert ahead == plain


def test_a_plan_is_evaluated_while_the_next_is_implemented() -> None:
    history = toy_history(1, 12)
    proposer = Watched()
    parts = batches_of(OneThread, proposer, []).stream(3, parents_of(history), history)
    assert next(parts)  # while the proposer waits
    assert proposer.implemented == 1
    proposer.may_go_on.set()
    assert sum(len(part) for part in parts) > 0
    assert threading.get_ident() not in proposer.callers
    assert len(proposer.callers) == 1


def test_listeners_hear_everything_in_the_thread_of_the_search() -> None:
    heard: list[tuple[int, Event]] = []
    history = toy_history(1, 12)
    settings = Settings(plans=2)
    task = SearchTask(ToyTask.workload, ToyTarget().brief(), ToyProposer(), settings)
    batches = Batches(
        task,
        BeamSearch(),
        OneThread(task),
        lambda event: heard.append((threading.get_ident(), event)),
    )
    for _ in batches.stream(3, parents_of(history), history):
        pass
    assert {type(event) for _, event in heard} == {Planned, Implemented}
    assert {ident for ident, _ in heard} == {threading.get_ident()}


def test_an_iteration_that_is_given_up_leaves_no_thread_behind() -> None:
    history = toy_history(1, 12)
    proposer = Watched()
    parts = batches_of(OneThread, proposer, []).stream(3, parents_of(history), history)
    next(parts)
    threading.Timer(0.05, proposer.may_go_on.set).start()
    parts.close()
    assert proposer.implemented <= 2
    assert "propose" not in {thread.name for thread in threading.enumerate()}


def test_what_the_checkpoint_raises_ends_the_batch() -> None:
    class SpentError(Exception):
        pass

    calls: list[int] = []

    def checkpoint() -> None:
        calls.append(0)
        if len(calls) > 3:
            raise SpentError

    history = toy_history(1, 12)
    batches = batches_of(OneThread, ToyProposer(), [])
    with pytest.raises(SpentError):
        for _ in batches.stream(3, parents_of(history), history, checkpoint):
            pass
    assert len(calls) == 4
