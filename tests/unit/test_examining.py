"""A search with modelled latencies begins while its start and its check are examined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from tilewright import confirming, examining, run, run_clock, run_metadata, session, verification
from tilewright.core import plugins, tasks
from tilewright.core.config import Settings
from tilewright.core.errors import InternalError, OutOfTimeError, WorkloadError
from tilewright.core.records import (
    Candidate,
    EvaluationRequest,
    Failed,
    Measured,
    Outcome,
    Verdict,
)
from tilewright.core.roles import Checkpoint, Executor, More, OnOutcome
from tilewright.search.events import Evaluated, IterationStarted
from tilewright.search.events import Event as SearchEvent
from tilewright.testing.toy import START, ToyExecutor, ToyProposer, ToyTarget, ToyTask, toy_outcome
from tilewright.verification import RECHECK_COMPARISONS

QUICK = Settings(seed=1, iterations=2, plans=2)
WRONG = Failed("check", "wrong_result", "1 of 5 elements differ (small inputs)")


class ModelledTask(ToyTask):
    """Its latencies need no data."""

    baselines: Mapping[str, str] = {"naive": START, "tuned": "toy 1 1 1 1 1"}

    def modelled(self, source: str) -> Measured | Failed:
        """The latency, compared with nothing."""
        found = toy_outcome(source)
        assert isinstance(found, Measured)
        return Measured(found.latency, "cycles", "modelled", found.utilization, Verdict())


class World:
    """What a test decides and sees of the examination."""

    def __init__(self) -> None:
        self.searching = Event()
        self.start: Outcome = toy_outcome(START)
        self.refusal: WorkloadError | None = None
        self.waits_for_search = True
        self.examined = 0
        self.events: list[SearchEvent] = []

    def hear(self, event: SearchEvent) -> None:
        """Take part in an event of the search."""
        self.events.append(event)
        if isinstance(event, IterationStarted):
            self.searching.set()

    def executor(self, *_: object) -> Executor:
        """What the examination compares kernels with."""
        world = self

        class Compares(ToyExecutor):
            def evaluate(
                self,
                requests: Sequence[EvaluationRequest],
                on_outcome: OnOutcome | None = None,
                more: More | None = None,
                checkpoint: Checkpoint | None = None,
            ) -> list[Outcome]:
                if world.waits_for_search:
                    while not world.searching.wait(0.01):
                        assert checkpoint is not None
                        checkpoint()
                if [r.candidate.source for r in requests] == [START]:
                    assert on_outcome is not None
                    on_outcome(0, world.start, 0.5, False)
                    return [world.start]
                return super().evaluate(requests, on_outcome, more, checkpoint)

        return Compares()

    def require(self, *_: object) -> None:
        """Examine the task."""
        self.examined += 1
        if self.refusal is not None:
            raise self.refusal


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    target = ToyTarget()
    monkeypatch.setattr(target, "open", lambda spec, settings: ModelledTask())
    monkeypatch.setattr(tasks, "load_target", lambda name: target)
    monkeypatch.setattr(plugins, "load_proposer", lambda name: ToyProposer())
    monkeypatch.setattr(session, "create_executor", lambda *_: ToyExecutor())
    monkeypatch.setattr(examining, "create_executor", made.executor)
    monkeypatch.setattr(run, "require_preflight", made.require)

    class Modelling:
        def __init__(self, *_: object) -> None:
            pass

        def modelled(self, source: str) -> Measured | Failed:
            return ModelledTask().modelled(source)

        def close(self) -> None:
            pass

    monkeypatch.setattr(examining, "Builds", Modelling)
    return made


def test_the_search_begins_before_its_start_has_been_compared(world: World, tmp_path: Path) -> None:
    """The comparison here waits for the first iteration: it would wait for ever otherwise."""
    summary = run.optimize("toy:digits", QUICK, project=tmp_path, on_event=world.hear)
    first = next(e for e in world.events if isinstance(e, Evaluated)).trial.outcome
    assert isinstance(first, Measured)
    assert not first.verdict.checks
    assert world.examined == 1
    with closing(run.open_project(tmp_path)) as storage:
        start = storage.history(summary.run_id)[0].outcome
        kernels = run_metadata.baselines(storage, summary.run_id)
    assert start == world.start, "what the comparison found takes the place of the modelled start"
    assert [kernel.name for kernel in kernels] == ["naive", "tuned"]


@pytest.mark.parametrize("waits", [True, False])
def test_a_wrong_start_ends_the_run(world: World, tmp_path: Path, waits: bool) -> None:
    world.start, world.waits_for_search = WRONG, waits
    with pytest.raises(WorkloadError, match=r"the starting kernel of toy:digits fails its check"):
        run.optimize("toy:digits", QUICK, project=tmp_path, on_event=world.hear)
    with closing(run.open_project(tmp_path)) as storage:
        (record,) = storage.runs()
    assert record.status == "finished"
    assert "the starting kernel of toy:digits" in record.stop_reason
    with closing(run.open_project(tmp_path)) as storage:
        assert storage.history(record.id)[0].outcome == WRONG


def test_a_check_that_accepts_a_wrong_kernel_ends_the_run(world: World, tmp_path: Path) -> None:
    world.refusal = WorkloadError("the check of toy:digits accepts a wrong kernel")
    with pytest.raises(WorkloadError, match="accepts a wrong kernel"):
        run.optimize("toy:digits", QUICK, project=tmp_path, on_event=world.hear)
    with closing(run.open_project(tmp_path)) as storage:
        (record,) = storage.runs()
    assert record.status == "interrupted", "no result of it is taken for one"


def test_a_start_that_the_model_refuses_is_named_at_once(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Failed("build", "compile_error", "kernel.toy:1: no such instruction", 1)
    monkeypatch.setattr(ModelledTask, "modelled", lambda self, source: refused)
    with pytest.raises(WorkloadError, match="no such instruction"):
        run.optimize("toy:digits", QUICK, project=tmp_path, on_event=world.hear)
    assert not any(isinstance(event, IterationStarted) for event in world.events)


def test_a_resumed_run_compares_its_start(world: World, tmp_path: Path) -> None:
    """Interrupted before its start was compared, a run does that when it goes on."""

    def interrupt(event: SearchEvent) -> None:
        world.hear(event)
        if isinstance(event, IterationStarted):
            raise KeyboardInterrupt

    world.waits_for_search = True
    world.searching.wait = lambda timeout=None: False  # type: ignore[method-assign]
    summary = run.optimize("toy:digits", QUICK, project=tmp_path, on_event=interrupt)
    world.start, world.waits_for_search = WRONG, False
    with pytest.raises(WorkloadError, match="the starting kernel of toy:digits"):
        run.resume(summary.run_id, project=tmp_path)


def test_models_are_asked_after_the_examination(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What costs money is not spent on a task that may be refused."""
    opened = tasks.open_task("toy:digits", {})
    made = run._examination(opened, QUICK, Path(), {})
    assert isinstance(made, examining.Examination)
    for name in ("mailbox:folder", "agent:claude -p"):
        asked = Settings(proposers=("builtin", name))
        assert run._examination(opened, asked, Path(), {}) is None


def test_other_tasks_are_examined_before() -> None:
    opened = tasks.OpenTask("toy:digits", ToyTarget(), ToyTask())
    assert run._examination(opened, QUICK, Path(), {}) is None
    assert not examining.Examination.is_of(opened)


def test_a_search_is_not_over_before_the_examination(world: World, tmp_path: Path) -> None:
    """A refusal that comes after the last candidate still counts."""
    done = Event()
    inner = world.require

    def late(*given: object) -> None:
        done.wait(0.3)
        world.refusal = WorkloadError("refused late")
        inner(*given)

    world.require = late  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "require_preflight", late)
        with pytest.raises(WorkloadError, match="refused late"):
            run.optimize("toy:digits", QUICK, project=tmp_path, on_event=world.hear)


def test_the_candidate_of_the_comparison_is_the_start(world: World, tmp_path: Path) -> None:
    summary = run.optimize("toy:digits", QUICK, project=tmp_path, on_event=world.hear)
    with closing(run.open_project(tmp_path)) as storage:
        assert storage.history(summary.run_id)[0].candidate == Candidate(START)


def test_time_to_evaluate_a_winner_once_is_kept(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start took half a second; what is modelled need not be evaluated twice."""
    kept: list[float] = []
    monkeypatch.setattr(session.Session, "_reserve", lambda self, seconds: kept.append(seconds))
    run.optimize("toy:digits", QUICK, project=tmp_path, on_event=world.hear)
    assert kept == [0.5]


class StoppedError(Exception):
    """A request to stop."""


def test_a_request_to_stop_ends_the_wait_for_the_examination(world: World, tmp_path: Path) -> None:
    world.waits_for_search, ended = False, Event()
    opened = tasks.open_task("toy:digits", {})

    def wait_long(checkpoint: Checkpoint) -> None:
        ended.wait(20)

    found = examining.Examination(opened, wait_long)

    def stop() -> None:
        raise StoppedError

    with closing(run.open_project(tmp_path, create=True)) as storage:
        found.begin({}, storage)
        with pytest.raises(StoppedError):
            found.wait(stop)
        ended.set()
        found.wait(lambda: None)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_examination_that_ends_early_is_not_passed(world: World, tmp_path: Path) -> None:
    world.waits_for_search = False
    opened = tasks.open_task("toy:digits", {})

    def leave(checkpoint: Checkpoint) -> None:
        raise SystemExit

    found = examining.Examination(opened, leave)
    with closing(run.open_project(tmp_path, create=True)) as storage:
        found.begin({}, storage)
        with pytest.raises(InternalError, match="before it was complete"):
            found.wait(lambda: None)


class Measuring(ToyExecutor):
    """Keeps the requests of the search, and may refuse the starting kernel."""

    def __init__(self, requests: list[EvaluationRequest], start: Outcome) -> None:
        super().__init__()
        self.requests, self.start = requests, start

    def _one(self, request: EvaluationRequest) -> tuple[Outcome, float, bool]:
        self.requests.append(request)
        if request.candidate.source == START:
            return self.start, 0.5, False
        return super()._one(request)


class MeasuredTask(ToyTask):
    """Its starting kernel is compared further when it is measured."""

    compares_further = True


def test_a_measured_start_is_evaluated_once_and_as_strictly_as_a_winner(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[EvaluationRequest] = []
    target = ToyTarget()
    monkeypatch.setattr(target, "open", lambda spec, settings: MeasuredTask())
    monkeypatch.setattr(tasks, "load_target", lambda name: target)
    monkeypatch.setattr(session, "create_executor", lambda *_: Measuring(requests, world.start))
    run.optimize("toy:digits", QUICK, project=tmp_path)
    starts = [r for r in requests if r.candidate.source == START]
    assert [r.comparisons for r in starts] == [RECHECK_COMPARISONS]
    assert world.examined == 1
    assert not any(r.comparisons for r in requests if r not in starts)


@pytest.mark.parametrize("task", [ToyTask, MeasuredTask])
def test_preflight_evaluates_only_starts_that_searches_do_not_compare_further(
    task: type[ToyTask], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(verification, "Attackable", ToyTask)
    monkeypatch.setattr(verification, "check_reference", lambda *_: done.append("check"))
    monkeypatch.setattr(verification, "check_kernel", lambda *_: done.append("start"))
    target = ToyTarget()
    monkeypatch.setattr(target, "open", lambda spec, settings: task())
    monkeypatch.setattr(tasks, "load_target", lambda name: target)
    opened = tasks.open_task("toy:digits", {})
    run.open_project(tmp_path, create=True).close()
    for _ in range(2):
        verification.require_preflight(opened, QUICK, tmp_path, {})
    assert sorted(done) == ["check"] + ["start"] * (task is ToyTask)


LIMITED = Settings(seed=1, iterations=2, plans=2, max_wall_s=0.2)


def test_a_budget_ends_the_wait_for_the_examination_and_the_run_can_be_completed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def long(
        opened: object, settings: object, project: object, versions: object, stop: Checkpoint
    ) -> None:
        while True:  # until the examination is cancelled
            stop()

    world.waits_for_search = False
    monkeypatch.setattr(run, "require_preflight", long)
    late = run.optimize("toy:digits", LIMITED, project=tmp_path, on_event=world.hear)
    assert (late.status, late.confirmed, late.is_out_of_time) == ("interrupted", False, True)
    assert late.stop_reason.startswith("the budget of 0.2 s ended before the starting kernel had")
    monkeypatch.setattr(run, "require_preflight", world.require)
    done = run.optimize("toy:digits", LIMITED, project=tmp_path, on_event=world.hear)
    assert (done.run_id, done.status, world.examined) == (late.run_id, "finished", 1)
    assert not done.is_out_of_time


def test_a_start_that_was_compared_with_nothing_is_not_called_correct(
    world: World, tmp_path: Path
) -> None:
    world.searching.wait = lambda timeout=None: False  # type: ignore[method-assign]
    settings = replace(LIMITED, iterations=0)
    late = run.optimize("toy:digits", settings, project=tmp_path, on_event=world.hear)
    assert (late.status, late.verdict) == ("interrupted", "not evaluated")


def test_a_budget_that_ends_before_the_start_is_evaluated_is_an_error(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(ToyExecutor):
        def evaluate(
            self,
            requests: Sequence[EvaluationRequest],
            on_outcome: OnOutcome | None = None,
            more: More | None = None,
            checkpoint: Checkpoint | None = None,
        ) -> list[Outcome]:
            assert checkpoint is not None
            while True:
                checkpoint()

    target = ToyTarget()
    monkeypatch.setattr(tasks, "load_target", lambda name: target)
    monkeypatch.setattr(session, "create_executor", lambda *_: Slow())
    with pytest.raises(
        OutOfTimeError, match=r"ended before the starting kernel .* larger --budget"
    ):
        run.optimize("toy:digits", LIMITED, project=tmp_path)
    with closing(run.open_project(tmp_path)) as storage:
        (record,) = storage.runs()
    assert record.status == "finished"
    assert record.stop_reason.endswith("the starting kernel of toy:digits was evaluated")


def test_a_budget_that_ends_during_preflight_begins_no_run(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def long(
        opened: object, settings: object, project: object, versions: object, stop: Checkpoint
    ) -> None:
        while True:
            stop()

    target = ToyTarget()
    monkeypatch.setattr(tasks, "load_target", lambda name: target)
    monkeypatch.setattr(run, "require_preflight", long)
    with pytest.raises(OutOfTimeError, match="the correctness check of toy:digits had been tested"):
        run.optimize("toy:digits", LIMITED, project=tmp_path)
    with closing(run.open_project(tmp_path)) as storage:
        assert storage.runs() == []


def test_a_budget_ends_the_confirmation_and_a_resumed_run_completes_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(
        task: str, settings: object, candidate: Candidate, *, checkpoint: Checkpoint
    ) -> Outcome:
        monkeypatch.setattr(run_clock, "monotonic", lambda: monotonic() + 1000)
        checkpoint()
        raise AssertionError

    world.waits_for_search = False
    monkeypatch.setattr(confirming, "Attackable", ToyTask)
    monkeypatch.setattr(confirming, "recheck", slow)
    limited = replace(LIMITED, max_wall_s=900.0)
    late = run.optimize("toy:digits", limited, project=tmp_path, on_event=world.hear)
    assert (late.status, late.confirmed) == ("interrupted", False)
    assert late.stop_reason.endswith("the fastest kernel had been evaluated again on new inputs")
    monkeypatch.setattr(confirming, "recheck", lambda *given, **_: toy_outcome(given[2].source))
    done = run.resume(late.run_id, project=tmp_path)
    assert (done.status, done.confirmed, done.best_latency) == ("finished", True, late.best_latency)
