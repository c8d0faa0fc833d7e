"""ApartBatches: several processes propose, and the batch is that of a single one."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tilewright.core.config import Settings
from tilewright.core.errors import InternalError, WorkloadError
from tilewright.core.records import Brief, Candidate, EvaluationRequest, History, Plan, Trial
from tilewright.search.apart import ApartBatches
from tilewright.search.beam import BeamSearch
from tilewright.search.events import Event, ProposalFailed
from tilewright.search.proposing import Batches
from tilewright.testing.search import toy_history
from tilewright.testing.toy import ToyProposer, ToyTarget, ToyTask


class Faulty(ToyProposer):
    """Has a defect in one parent's plans."""

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        if brief.rank == 1:
            raise ZeroDivisionError("a defect")
        return super().plan(brief, parent, history, count, seed)


class Refusing(ToyProposer):
    """Finds the user's input unusable."""

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        raise WorkloadError("it cannot be read.")


class Endless(ToyProposer):
    """Never comes to an end with the last parent."""

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        while brief.rank == 4:
            time.sleep(1.0)
        return super().plan(brief, parent, history, count, seed)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proposers above are found by the processes as well."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def parents_of(history: History) -> list[Trial]:
    return [t for t in history if t.latency is not None][:5]


def apart(proposer: ToyProposer, events: list[Event], processes: int = 2) -> ApartBatches:
    return ApartBatches(
        ToyTask.workload,
        ToyTarget().brief(),
        proposer,
        BeamSearch(),
        Settings(plans=4, dropout=0.0),
        events.append,
        processes=processes,
    )


def alone(proposer: ToyProposer, events: list[Event]) -> Batches:
    return Batches(
        ToyTask.workload,
        ToyTarget().brief(),
        proposer,
        BeamSearch(),
        Settings(plans=4, dropout=0.0),
        events.append,
    )


def made_by(batches: Batches, history: History, iteration: int = 3) -> list[EvaluationRequest]:
    parts = batches.stream(iteration, parents_of(history), history)
    return [request for part in parts for request in part]


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_the_same_candidates_come_in_the_same_order(processes: int) -> None:
    heard: list[Event] = []
    expected_events: list[Event] = []
    single = alone(ToyProposer(), expected_events)
    with apart(ToyProposer(), heard, processes) as batches:
        for iteration, trials in ((3, 12), (4, 30)):  # the later history extends the earlier one
            history = toy_history(1, trials)
            expected = made_by(single, history, iteration)
            assert len(expected) > 5
            assert made_by(batches, history, iteration) == expected
    assert heard == expected_events


def test_what_an_earlier_session_made_is_not_made_again() -> None:
    history = toy_history(1, 30)
    with apart(ToyProposer(), [], processes=3) as batches:  # more of them than parents
        parts = list(batches.stream(3, [history[0]], history))
    found = [request for part in parts for request in part]
    single = alone(ToyProposer(), [])
    assert found == single.propose(3, [history[0]], history)
    forms = {ToyProposer().normalize(t.candidate.source) for t in history}
    assert not forms & {ToyProposer().normalize(r.candidate.source) for r in found}
    assert found


def test_another_history_than_before_counts_alone() -> None:
    first, second = toy_history(1, 30), toy_history(2, 20)
    with apart(ToyProposer(), []) as batches:
        made_by(batches, first)
        assert made_by(batches, second) == made_by(alone(ToyProposer(), []), second)


def test_a_defect_costs_one_step() -> None:
    heard: list[Event] = []
    expected_events: list[Event] = []
    history = toy_history(1, 12)
    expected = made_by(alone(Faulty(), expected_events), history)
    with apart(Faulty(), heard) as batches:
        assert made_by(batches, history) == expected
    failures = [e for e in heard if isinstance(e, ProposalFailed)]
    assert len(failures) == 1
    assert "ZeroDivisionError: a defect" in failures[0].log


def test_an_error_that_is_the_users_to_hear_is_raised_here() -> None:
    with apart(Refusing(), []) as batches, pytest.raises(WorkloadError, match="cannot be read"):
        made_by(batches, toy_history(1, 12))


def test_a_batch_that_is_given_up_leaves_nothing_behind_and_can_be_asked_for_again() -> None:
    history = toy_history(1, 12)
    with apart(Endless(), []) as batches:
        for _ in range(2):
            parts = batches.stream(3, parents_of(history), history)
            first = next(parts)
            assert first == made_by(alone(ToyProposer(), []), history)[: len(first)]
            parts.close()
            assert "propose" not in {thread.name for thread in threading.enumerate()}
    assert "propose" not in {thread.name for thread in threading.enumerate()}


def test_what_the_checkpoint_raises_ends_the_batch() -> None:
    class SpentError(Exception):
        pass

    def checkpoint() -> None:
        raise SpentError

    history = toy_history(1, 12)
    with apart(ToyProposer(), []) as batches, pytest.raises(SpentError):
        list(batches.stream(3, parents_of(history), history, checkpoint))


def test_a_process_that_ends_is_an_error_not_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH")  # there, the proposer cannot be loaded
    with (
        apart(Faulty(), []) as batches,
        pytest.raises(InternalError, match="process that proposes"),
    ):
        made_by(batches, toy_history(1, 12))
