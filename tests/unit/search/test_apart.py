"""Processes: several processes propose, and the batch is that of a single one."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tilewright.core.config import Settings
from tilewright.core.errors import InputError, InternalError, WorkloadError
from tilewright.core.plugins import load_target
from tilewright.core.records import (
    Brief,
    Candidate,
    EvaluationRequest,
    History,
    LeftAlone,
    Plan,
    TargetBrief,
    Trial,
    Workload,
)
from tilewright.proposers.builtin import BuiltinProposer
from tilewright.proposers.first_schedules import FirstSchedules
from tilewright.proposers.parameters import ParametersFirst
from tilewright.proposers.random_steps import RandomProposer
from tilewright.sandbox.child import Child
from tilewright.search import processes
from tilewright.search.beam import BeamSearch
from tilewright.search.events import Event, ProposalFailed
from tilewright.search.in_process import StepByStep
from tilewright.search.processes import Coming, Processes, kept_processes
from tilewright.search.proposing import Batches
from tilewright.search.steps import Expansion, SearchTask
from tilewright.testing.search import toy_history
from tilewright.testing.toy import ToyProposer, ToyTarget, ToyTask, normal_form
from tilewright.tuner.parameters.searches import GuidedParameters


class Faulty(ToyProposer):
    """Has a defect in one parent's plans."""

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        if brief.rank == 1:
            raise ZeroDivisionError("a defect")
        return super().plan(brief, parent, history, count, seed)


class Knowing(ToyProposer):
    """Says in each plan what it knows of the history."""

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        known = " ".join(trial.candidate.id for trial in history)
        plans = super().plan(brief, parent, history, count, seed)
        return [replace(plan, text=f"{plan.text} of {known}") for plan in plans]


class Looking(ToyProposer):
    """Says in each plan how many target objects it has seen in its process."""

    seen: ClassVar[list[TargetBrief]] = []

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        if not any(brief.target is known for known in self.seen):
            self.seen.append(brief.target)
        plans = super().plan(brief, parent, history, count, seed)
        return [replace(plan, text=f"{plan.text} {len(self.seen)}") for plan in plans]


class Refusing(ToyProposer):
    """Finds the user's input unusable."""

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        raise WorkloadError("it cannot be read.")


class OddError(WorkloadError):
    """Takes more than a message."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} is odd: {why}.")


class Odd(ToyProposer):
    """Finds the user's input unusable in its own words."""

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        raise OddError("the kernel", "it is empty")


class Reading(ToyProposer):
    """Says in each plan what it has read in its process."""

    read: ClassVar[list[str]] = []

    def left_alone(self, target: TargetBrief, source: str, workload: Workload) -> list[LeftAlone]:
        self.read.append(f"{source[:4]} of {workload.name}")
        if source == "slow":
            while True:
                pass
        return []

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        plans = super().plan(brief, parent, history, count, seed)
        return [replace(plan, text=f"{plan.text} after {self.read}") for plan in plans]


class Dying(ToyProposer):
    """Is killed while it plans, as for lack of memory."""

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        os.kill(os.getpid(), signal.SIGKILL)
        return []


class Endless(ToyProposer):
    """Never comes to an end with the last parent."""

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        while brief.rank == 4:
            time.sleep(1.0)
        return super().plan(brief, parent, history, count, seed)


class Asleep(ToyProposer):
    """Never comes to an end. It creates the file `begun` when it begins to plan."""

    begun: Path | None = None

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        if self.begun is not None:
            self.begun.touch()
        time.sleep(1000.0)
        return []


class Slow(ToyProposer):
    """Computes for ever where it plans for one parent, and where it implements one option."""

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        if brief.rank == 1:
            compute_for_ever()
        return super().plan(brief, parent, history, count, seed)

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        if plan.option == "lower-2" and brief.rank == 0:
            compute_for_ever()
        return super().implement(brief, parent, plan, count, seed)


def compute_for_ever() -> None:
    while True:
        with suppress(Exception):  # nothing that it goes on after ends it
            sum(range(1000))


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proposers above are found by the processes as well."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=":")


def parents_of(history: History) -> list[Trial]:
    return [t for t in history if t.latency is not None][:5]


def task_of(proposer: ToyProposer) -> SearchTask:
    settings = Settings(plans=4, dropout=0.0)
    return SearchTask(ToyTask.workload, ToyTarget().brief(), proposer, settings)


@contextmanager
def apart(proposer: ToyProposer, events: list[Event], processes: int = 2) -> Iterator[Batches]:
    task = task_of(proposer)
    with Processes(task, processes) as way:
        yield Batches(task, BeamSearch(), way, events.append)


def alone(proposer: ToyProposer, events: list[Event]) -> Batches:
    task = task_of(proposer)
    return Batches(task, BeamSearch(), StepByStep(task), events.append)


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
    expected = single.stream(3, [history[0]], history)
    assert found == [request for part in expected for request in part]
    forms = {normal_form(t.candidate.source) for t in history}
    assert not forms & {normal_form(r.candidate.source) for r in found}
    assert found


def test_another_history_than_before_counts_alone() -> None:
    first, second = toy_history(1, 30), toy_history(2, 20)
    extended = second.extended(toy_history(2, 30)[20:])
    with apart(Knowing(), []) as batches:
        for history in (first, second, extended):
            assert made_by(batches, history) == made_by(alone(Knowing(), []), history)


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


def test_a_step_that_computes_for_too_long_is_given_up_and_the_others_are_made() -> None:
    heard: list[Event] = []
    history = toy_history(1, 12)
    task = replace(task_of(Slow()), step_limit_s=0.5)
    with Processes(task) as way:
        found = made_by(Batches(task, BeamSearch(), way, heard.append), history)
    slow, planned = (parents_of(history)[rank].candidate.id for rank in (1, 0))
    complete = made_by(alone(ToyProposer(), []), history)
    made_of_slow = [
        r
        for r in complete
        if r.candidate.parent_id == slow
        or (r.candidate.parent_id == planned and r.candidate.plan.option == "lower-2")  # type: ignore[union-attr]
    ]
    assert made_of_slow
    assert found
    assert not {r.candidate.id for r in found} & {r.candidate.id for r in made_of_slow}
    made_of_others = {r.candidate.id for r in complete} - {r.candidate.id for r in made_of_slow}
    assert made_of_others <= {r.candidate.id for r in found}
    failures = [e for e in heard if isinstance(e, ProposalFailed)]
    assert {e.parent_id for e in failures} == {slow, planned}
    for failure, step in zip(failures, ("implementing ", "planning "), strict=True):
        assert failure.log.startswith(step)
        assert "given up after 0.5 s of computing, in test_apart.compute_for_ever" in failure.log


def test_an_error_that_is_the_users_to_hear_is_raised_here() -> None:
    with apart(Refusing(), []) as batches, pytest.raises(WorkloadError, match="cannot be read"):
        made_by(batches, toy_history(1, 12))


def test_an_error_with_a_constructor_of_its_own_is_raised_here() -> None:
    with (
        apart(Odd(), []) as batches,
        pytest.raises(WorkloadError, match="the kernel is odd: it is empty"),
    ):
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
    folders = os.environ["PYTHONPATH"].partition(":")[2]
    monkeypatch.setenv("PYTHONPATH", folders)  # there, the proposer cannot be loaded
    with (
        apart(Faulty(), []) as batches,
        pytest.raises(InternalError, match="process that proposes"),
    ):
        made_by(batches, toy_history(1, 12))


@pytest.mark.parametrize("source", ["start", "slow"])
def test_a_process_reads_the_coming_kernel_before_it_proposes(source: str) -> None:
    """A proposer that reads for too long is interrupted. Meanwhile, this process does other work
    once the processes have work."""
    task, history = replace(task_of(Reading()), step_limit_s=0.2), toy_history(1, 12)
    asked: list[int] = []
    coming = Coming(source, (Reading(),))
    with Processes(task, meanwhile=lambda: asked.append(len(way._home)), coming=coming) as way:
        batches = Batches(task, BeamSearch(), way, lambda event: None)
        made = made_by(batches, history)
    texts = [r.candidate.plan.text for r in made if r.candidate.plan is not None]
    read = f"after ['{source[:4]} of {task.workload.name}']"
    assert any(text.endswith(read) for text in texts)
    assert asked == [len({parent.candidate.id for parent in parents_of(history)})]


def test_a_process_that_is_killed_is_an_error_with_its_cause() -> None:
    with (
        apart(Dying(), []) as batches,
        pytest.raises(InternalError, match=r"killed by signal 9, .* memory runs out"),
    ):
        made_by(batches, toy_history(1, 12))


def test_a_process_that_is_killed_while_idle_is_replaced() -> None:
    history, later = toy_history(1, 12), toy_history(1, 30)
    task = task_of(ToyProposer())
    with Processes(task) as way:
        batches = Batches(task, BeamSearch(), way, lambda event: None)
        made_by(batches, history)
        idle = way._processes[0]
        idle._child.signal_end()
        idle._reader.join(120.0)
        assert made_by(batches, later, 4) == made_by(alone(ToyProposer(), []), later, 4)
        assert way._processes[0] is not idle


def test_what_is_given_to_a_process_that_has_just_ended_is_not_waited_for() -> None:
    task = task_of(ToyProposer())
    with Processes(task) as way:
        batches = Batches(task, BeamSearch(), way, lambda event: None)
        for process in way._processes:
            process._child.signal_end()
            process._reader.join(120.0)
            process.has_ended = lambda: False  # type: ignore[method-assign]
        with pytest.raises(InternalError, match="killed by signal 9"):
            made_by(batches, toy_history(1, 12))


def test_kept_processes_forget_the_previous_search_and_end_with_the_block() -> None:
    first = toy_history(1, 12)
    second = first.extended(toy_history(1, 30)[12:])
    with kept_processes():
        with Processes(task_of(Knowing())) as way:
            batches = Batches(task_of(Knowing()), BeamSearch(), way, lambda event: None)
            parts = batches.stream(3, parents_of(first), first)
            next(parts)
            before = list(way._processes)
            parts.close()  # four parents are not finished
        task = replace(task_of(Knowing()), settings=Settings(plans=3, dropout=0.0, seed=5))
        with Processes(task) as way:
            batches = Batches(task, BeamSearch(), way, lambda event: None)
            single = Batches(task, BeamSearch(), StepByStep(task), lambda event: None)
            assert made_by(batches, second) == made_by(single, second)
            assert way._processes == before
            assert not before[0].has_ended()
    assert all(process.has_ended() for process in before)


def test_searches_with_the_same_target_see_the_same_object() -> None:
    """What a kept process has stored about a target is found again."""
    history = toy_history(1, 12)
    texts: list[str] = []
    other = replace(task_of(Looking()).target, name="other")
    with kept_processes():
        for target in (None, None, other):
            task = task_of(Looking())
            task = task if target is None else replace(task, target=target)
            with Processes(task, 1) as way:
                batches = Batches(task, BeamSearch(), way, lambda event: None)
                plan = made_by(batches, history)[0].candidate.plan
                texts.append(plan.text if plan is not None else "")
    assert [text.split()[-1] for text in texts] == ["1", "1", "2"]


def test_a_kept_process_that_cannot_be_used_is_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(processes, "_STOP_S", 0.2)
    history = toy_history(1, 12)
    asleep = Asleep()
    asleep.begun = tmp_path / "begun"
    with kept_processes():
        with Processes(task_of(asleep)) as way:
            way.begin([Expansion(3, 0, history[0].candidate.id)], history)
            stuck = way._processes[0]
            # A process that is stopped before it begins does not fall asleep.
            while not asleep.begun.exists():
                time.sleep(0.01)
        with Processes(task_of(Knowing())) as way:
            idle = way._processes[0]
            assert idle is not stuck
        assert idle.has_stopped(120.0)
        with Processes(task_of(ToyProposer())) as way:  # whose modules are others
            assert way._processes[0] is not idle
        with Processes(task_of(Knowing())) as way:
            assert way._processes[0] is idle
        assert stuck.has_ended()


def test_a_kept_process_that_has_ended_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_STOP_S", 1000.0)
    task = task_of(ToyProposer())
    with kept_processes():
        with Processes(task) as way:
            ended = way._processes[0]
            ended._child.signal_end()
            ended._reader.join(120.0)
        with Processes(task) as way:
            assert way._processes[0] is not ended


def test_a_kept_process_ends_if_the_user_interrupts_the_search_that_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(process: object, timeout_s: float) -> bool:
        raise KeyboardInterrupt

    task = task_of(ToyProposer())
    with Processes(task) as new, kept_processes():
        with Processes(task) as way:
            kept = way._processes[0]
        monkeypatch.setattr(processes._Process, "has_stopped", interrupted)
        with pytest.raises(KeyboardInterrupt):
            new._opened()
    assert kept.has_ended()


def test_a_proposer_that_cannot_be_sent_is_refused_in_a_sentence() -> None:
    proposer = ToyProposer()
    proposer.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="set but cannot be pickled"):
        Processes(task_of(proposer))


def test_processes_that_cannot_all_be_started_leave_none(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Child] = []

    def limited(*arguments: Any, **options: Any) -> Child:
        if started:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        started.append(Child(*arguments, **options))
        return started[0]

    monkeypatch.setattr(processes, "Child", limited)
    with (
        pytest.raises(InternalError, match=r"cannot be started .Resource temporarily"),
        apart(ToyProposer(), []) as batches,
    ):
        made_by(batches, toy_history(1, 12))
    assert started[0].exit_text == "was killed by SIGKILL"


def test_a_process_is_started_when_a_parent_needs_it() -> None:
    """A search begins with one parent, and whatever else starts then takes time from it."""
    history = toy_history(1, 12)
    task = task_of(ToyProposer())
    with Processes(task) as way:
        batches = Batches(task, BeamSearch(), way, lambda event: None)
        first = parents_of(history)[:1]
        list(batches.stream(3, first, history))
        assert len(way._processes) == 1
        made_by(batches, history)
        assert len(way._processes) == 2
        way._stop()
        second = parents_of(history)[1:2]  # its process was the second one
        assert list(batches.stream(4, second, history))


@pytest.mark.parametrize(
    ("target", "rewriter"),
    [
        ("gemmini", "rewriter.proposer"),
        ("host-c", "loops.proposer"),
        ("trainium", "nki.proposer"),
        ("cuda", "template_proposer"),
    ],
)
def test_processes_begin_with_the_rewriter_imported(target: str, rewriter: str) -> None:
    builtin, search, brief = BuiltinProposer(), GuidedParameters(), load_target(target).brief()
    first = ParametersFirst(builtin, search, None, None, builtin)
    proposers = builtin, RandomProposer(), first, FirstSchedules(builtin, first, search)
    for proposer in proposers:
        task = replace(task_of(ToyProposer()), proposer=proposer, target=brief)
        found = Processes(task)._preparation
        assert found is None or f"tilewright.proposers.{rewriter}" in found.modules


def test_modules_of_others_are_imported_in_each_process() -> None:
    """They may read variables that only the new process has."""
    found = Processes(task_of(Knowing()))._preparation
    assert found is None or found.modules == ("tilewright.search.proposing_process",)
