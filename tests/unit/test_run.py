"""run.py in the toy world: assembling, resuming, ending, refusing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event as ThreadEvent
from typing import Any

import pytest

from tilewright import confirming, evaluating, run, session
from tilewright.cli.searching import command_line, summary_json
from tilewright.core import plugins, tasks
from tilewright.core.config import Settings
from tilewright.core.errors import (
    ConfigurationError,
    InputError,
    InternalError,
    StorageError,
    UnknownNameError,
    WorkloadError,
)
from tilewright.core.records import (
    Brief,
    Candidate,
    EvaluationRequest,
    Failed,
    History,
    Measured,
    Outcome,
    Plan,
    Schedule,
    Trial,
)
from tilewright.core.roles import Checkpoint, Executor, More, OnOutcome, Storage
from tilewright.core.run_notes import Rechecked, ReusedSchedule
from tilewright.core.tasks import OpenTask
from tilewright.evaluation.screening import ScreenedExecutor
from tilewright.report.static import render_report
from tilewright.run_metadata import baselines
from tilewright.search import reuse
from tilewright.search.events import Evaluated, Event, RunStarted, SchedulesReused, Stopped
from tilewright.testing.toy import (
    START,
    ToyExecutor,
    ToyProposer,
    ToyTarget,
    ToyTask,
    toy_outcome,
    whole_batch,
)
from tilewright.verification import start_error

QUICK = Settings(seed=1, iterations=3, plans=3)


class World:
    """What the fixture lets a test change and see."""

    def __init__(self) -> None:
        self.target = ToyTarget()
        self.evaluated: list[str] = []
        self.interrupt_after: int | None = None
        self.fails: Failed | None = None
        self.input_seeds: list[object] = []

    def create_executor(
        self,
        opened: OpenTask,
        settings: Mapping[str, object],
        workers: int | None,
        storage: Storage | None,
    ) -> Executor:
        assert storage is not None
        self.input_seeds.append(settings["input_seed"])
        world = self

        class Executor(ToyExecutor):
            def evaluate(
                self,
                requests: Sequence[EvaluationRequest],
                on_outcome: OnOutcome | None = None,
                more: More | None = None,
                checkpoint: Checkpoint | None = None,
            ) -> list[Outcome]:
                if world.fails is not None and on_outcome is not None:
                    whole_batch(requests, more)
                    on_outcome(0, world.fails, 0.1, False)
                    return [world.fails]
                limit = world.interrupt_after
                if limit is not None and len(world.evaluated) >= limit:
                    raise KeyboardInterrupt
                return super().evaluate(requests, on_outcome, more, checkpoint)

        return Executor(
            lookup=storage.cached_outcome,
            store=storage.store_outcome,
            on_evaluated=self.evaluated.append,
        )


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(tasks, "load_target", lambda name: made.target)
    monkeypatch.setattr(plugins, "load_proposer", lambda name: ToyProposer())
    monkeypatch.setattr(evaluating, "create_executor", made.create_executor)
    monkeypatch.setattr(session, "create_executor", made.create_executor)
    return made


class StuckProposer(ToyProposer):
    """Makes only kernels that compute wrong results."""

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        return [Candidate(f"toy -1 {plan.option[-1]}", parent.candidate.id, plan, self.name)]


@pytest.mark.parametrize("proposer", [ToyProposer(), StuckProposer()])
def test_time_for_a_confirmation_is_reserved_once_a_candidate_has_been_evaluated(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proposer: ToyProposer
) -> None:
    """A search that reserved it before would end without any candidate; one that reserved it only
    for a faster kernel could find the first one when no time is left to confirm it."""
    assemble = session.Session._assemble

    def assembled(self: session.Session, *given: Any) -> Any:
        self._clock.reserved_s = 1e6
        return assemble(self, *given)

    monkeypatch.setattr(session.Session, "_assemble", assembled)
    monkeypatch.setattr(plugins, "load_proposer", lambda name: proposer)
    summary = run.optimize("toy:digits", replace(QUICK, max_wall_s=1e5), project=tmp_path)
    assert summary.stop_reason == "the budget of 100000 s is spent"
    assert summary.evaluations == 2, "the starting kernel and the first candidate"
    again = run.optimize("toy:digits", replace(QUICK, max_wall_s=1e7), project=tmp_path)
    assert again.stop_reason.endswith("iterations are done")


class JumpProposer(ToyProposer):
    """Makes the fastest kernel at once."""

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        return [Candidate("toy 0 0 0 0 0", parent.candidate.id, plan, self.name)]


def test_a_kernel_that_is_held_back_is_not_evaluated_twice_where_time_is_short(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The confirmation of the winner takes the place of the second evaluation."""
    rechecked: list[str] = []

    def recheck(candidate: Candidate, limit: float, checkpoint: Checkpoint) -> Outcome:
        waiting = ThreadEvent()
        for _ in range(2000):  # it is ended before, unless the rule is broken
            checkpoint()
            waiting.wait(0.01)
        rechecked.append(candidate.source)
        return toy_outcome(candidate.source)

    def create(*_: object) -> ScreenedExecutor:
        return ScreenedExecutor(ToyExecutor(), recheck=recheck, winner_is_confirmed=True)

    assemble = session.Session._assemble

    def assembled(self: session.Session, *given: Any) -> Any:
        self._clock.reserved_s = 1e6
        return assemble(self, *given)

    monkeypatch.setattr(session.Session, "_assemble", assembled)
    monkeypatch.setattr(session, "create_executor", create)
    monkeypatch.setattr(plugins, "load_proposer", lambda name: JumpProposer())
    summary = run.optimize("toy:digits", replace(QUICK, max_wall_s=1e5), project=tmp_path)
    assert summary.stop_reason == "the budget of 100000 s is spent"
    assert summary.best_latency == 100, "it is the result, as it was measured"
    assert rechecked == []


def test_optimize_returns_and_stores_the_result(world: World, tmp_path: Path) -> None:
    events: list[Event] = []
    summary = run.optimize("toy:digits", QUICK, project=tmp_path, on_event=events.append)
    assert (summary.verdict, summary.status) == ("correct", "finished")
    assert summary.stop_reason == "all 3 iterations are done"
    assert summary.baseline_latency == 235
    assert summary.best_latency is not None
    assert summary.speedup == 235 / summary.best_latency > 1
    assert summary.evaluations == len(world.evaluated)
    assert summary.cached_evaluations == 0
    assert summary.wall_s > 0
    assert (summary.workload, summary.target, summary.seed) == ("toy:digits", "toy", 1)
    assert {"tilewright", "toy", "task"} <= set(summary.versions)
    assert isinstance(events[0], RunStarted)
    assert sum(isinstance(e, Evaluated) for e in events) == summary.evaluations
    assert events[-1] == Stopped(summary.stop_reason)
    storage = run.open_project(tmp_path)
    stored = storage.run("latest")
    assert stored.id == summary.run_id
    assert Settings.from_recorded(stored.settings) == QUICK
    best = storage.history(stored.id).best
    assert best is not None
    assert best.candidate.id == summary.best_candidate_id
    kinds = [kind for _, kind, _ in storage.events(stored.id)]
    assert kinds == ["RunStarted", *["IterationFinished"] * 3, "Stopped", "Survey"]


class ShownProposer(ToyProposer):
    """Keeps the schedules it is shown."""

    def __init__(self) -> None:
        self.seen: list[tuple[Schedule, ...]] = []

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        self.seen.append(brief.schedules)
        return super().plan(brief, parent, history, count, seed)


def test_a_run_is_shown_the_schedule_of_the_one_it_is_told_to_begin_with(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run.optimize("toy:digits", QUICK, project=tmp_path)
    proposer = ShownProposer()
    monkeypatch.setattr(plugins, "load_proposer", lambda name: proposer)
    told = replace(QUICK, seed=2, schedule_from=first.run_id[:5])
    world.interrupt_after = len(world.evaluated) + 5
    cut = run.optimize("toy:digits", told, project=tmp_path)
    world.interrupt_after = None
    done = run.optimize("toy:digits", told, project=tmp_path)
    assert done.run_id == cut.run_id
    (schedule,) = proposer.seen[0]
    assert all(shown == (schedule,) for shown in proposer.seen)
    assert schedule.workload == "toy:digits"
    assert schedule.latencies == (235, *sorted(schedule.latencies[1:], reverse=True))
    assert schedule.latencies[-1] == first.best_latency
    storage = run.open_project(tmp_path)
    assert storage.run(done.run_id).settings["schedule_from"] == first.run_id


def test_what_is_found_nearest_is_kept_with_the_run_and_taken_up_plan_by_plan(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = tuple(Plan("p", f"lower-{n}", "", "toy") for n in (3, 1))
    offered = [ReusedSchedule(Schedule("toy:other", plans, (3.0, 2.0, 1.0), "cycles"), "r", True)]
    asked: list[str] = []
    monkeypatch.setattr(
        reuse, "nearest_schedules", lambda new, storage: asked.append(new.id) or offered
    )
    world.interrupt_after = 2
    cut = run.optimize("toy:digits", QUICK, project=tmp_path)
    world.interrupt_after, offered = None, []
    heard: list[Event] = []
    done = run.optimize("toy:digits", QUICK, project=tmp_path, on_event=heard.append)
    assert asked == [cut.run_id] == [done.run_id]
    assert any(isinstance(event, SchedulesReused) for event in heard)
    with closing(run.open_project(tmp_path)) as storage:
        trials = [t for t in storage.history(done.run_id) if t.candidate.plan]
    options = [{t.candidate.plan.option for t in trials if t.iteration == n} for n in (1, 2)]  # type: ignore[union-attr]
    assert options == [{"lower-3"}, {"lower-1"}]
    assert max(t.iteration for t in trials) == 2 + 3


def test_nothing_is_looked_for_where_that_is_off_or_a_recording_answers(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reuse, "nearest_schedules", lambda new, storage: pytest.fail("asked"))
    off = run.optimize("toy:digits", replace(QUICK, reuse=False), project=tmp_path)
    (recording := tmp_path / "none.jsonl").write_text('{"recording": 1, "prices": null}\n')
    run.optimize("toy:digits", replace(QUICK, seed=5), project=tmp_path, replay=recording)
    with closing(run.open_project(tmp_path)) as storage:
        assert command_line(storage.run(off.run_id)).endswith(" --no-reuse")


def test_a_run_to_begin_with_must_fit(world: World, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="run"):
        run.optimize("toy:digits", replace(QUICK, schedule_from="f00"), project=tmp_path)
    empty = run.optimize("toy:digits", replace(QUICK, iterations=0), project=tmp_path)
    with pytest.raises(InputError, match="no steps to reuse"):
        run.optimize("toy:digits", replace(QUICK, schedule_from=empty.run_id), project=tmp_path)
    found = run.optimize("toy:digits", QUICK, project=tmp_path)
    world.target.name = "other"
    with pytest.raises(InputError, match="is for target toy"):
        run.optimize("toy:digits", replace(QUICK, schedule_from=found.run_id), project=tmp_path)


def test_baselines_are_evaluated_once_and_are_no_trials(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = {"naive": START, "library": "toy 8 8 8 8 8", "broken": "toy -1 9 9 9 9"}
    monkeypatch.setattr(ToyTask, "baselines", sources)
    world.interrupt_after = 8
    cut = run.optimize("toy:digits", QUICK, project=tmp_path)
    assert cut.status == "interrupted"
    world.interrupt_after = None
    done = run.optimize("toy:digits", QUICK, project=tmp_path)
    assert done.run_id == cut.run_id
    naive, library, broken = done.baselines
    assert (naive.name, naive.latency) == ("naive", done.baseline_latency)
    assert library.latency is not None
    assert library.latency < done.baseline_latency
    assert isinstance(broken.outcome, Failed)
    assert done.evaluations == len(world.evaluated) - 2  # library and broken; naive was known
    assert baselines(run.open_project(tmp_path), done.run_id) == done.baselines


def test_the_same_command_after_a_finished_run_starts_anew_from_the_cache(
    world: World, tmp_path: Path
) -> None:
    first = run.optimize("toy:digits", QUICK, project=tmp_path)
    count = len(world.evaluated)
    second = run.optimize("toy:digits", QUICK, project=tmp_path)
    assert second.run_id != first.run_id
    assert second.best_latency == first.best_latency
    assert second.cached_evaluations == second.evaluations == first.evaluations
    assert len(world.evaluated) == count


@pytest.mark.parametrize("by_id", [True, False])
def test_an_interrupted_run_is_resumed(world: World, tmp_path: Path, by_id: bool) -> None:
    world.interrupt_after = 5
    cut = run.optimize("toy:digits", QUICK, project=tmp_path)
    assert (cut.status, cut.stop_reason) == ("interrupted", "the user interrupted the search")
    assert cut.best_latency is not None
    world.interrupt_after = None
    events: list[Event] = []
    if by_id:
        done = run.resume(cut.run_id[:4], project=tmp_path, on_event=events.append)
    else:
        done = run.optimize("toy:digits", QUICK, project=tmp_path, on_event=events.append)
    assert done.run_id == cut.run_id
    assert done.status == "finished"
    assert done.wall_s > cut.wall_s
    assert isinstance(events[0], RunStarted)
    assert len(events[0].history) == cut.evaluations
    assert len(set(world.evaluated)) == len(world.evaluated)
    undisturbed = run.optimize("toy:digits", QUICK, project=tmp_path / "other")
    assert done.best_candidate_id == undisturbed.best_candidate_id
    assert done.evaluations == undisturbed.evaluations


def test_an_interruption_before_the_first_trial(world: World, tmp_path: Path) -> None:
    world.interrupt_after = 0
    cut = run.optimize("toy:digits", QUICK, project=tmp_path)
    assert (cut.status, cut.verdict, cut.evaluations) == ("interrupted", "not evaluated", 0)
    assert (cut.best_latency, cut.speedup, cut.best_candidate_id) == (None, None, None)
    world.interrupt_after = None
    assert run.resume(cut.run_id, project=tmp_path).verdict == "correct"


def test_a_larger_budget_repeats_the_run_from_the_cache_and_goes_on(
    world: World, tmp_path: Path
) -> None:
    small = replace(QUICK, max_evaluations=10)
    first = run.optimize("toy:digits", small, project=tmp_path)
    second = run.optimize("toy:digits", replace(small, max_evaluations=20), project=tmp_path)
    assert (first.evaluations, second.evaluations, second.cached_evaluations) == (10, 20, 10)
    storage = run.open_project(tmp_path)
    trials = [[t.candidate for t in storage.history(s.run_id)] for s in (first, second)]
    assert trials[0] == trials[1][:10]


def test_another_command_does_not_take_over_an_unfinished_run(world: World, tmp_path: Path) -> None:
    world.interrupt_after = 5
    cut = run.optimize("toy:digits", QUICK, project=tmp_path)
    other = run.optimize("toy:digits", Settings(seed=2), project=tmp_path)
    assert other.run_id != cut.run_id


def test_a_run_of_another_version_is_not_continued(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.interrupt_after = 5
    cut = run.optimize("toy:digits", QUICK, project=tmp_path)
    monkeypatch.setattr(world.target, "versions", lambda: {"toy": "2"})
    with pytest.raises(ConfigurationError, match="toy 1, but this machine has 2"):
        run.resume(cut.run_id, project=tmp_path)
    world.interrupt_after = None
    assert run.optimize("toy:digits", QUICK, project=tmp_path).run_id != cut.run_id


def test_a_finished_run_cannot_be_resumed(world: World, tmp_path: Path) -> None:
    done = run.optimize("toy:digits", QUICK, project=tmp_path)
    with pytest.raises(InputError, match="is finished"):
        run.resume(done.run_id, project=tmp_path)


def test_resuming_nothing_is_refused(world: World, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="contains no runs of tilewright"):
        run.resume("latest", project=tmp_path)
    run.optimize("toy:digits", QUICK, project=tmp_path)
    with pytest.raises(UnknownNameError):
        run.resume("zzz", project=tmp_path)


@pytest.mark.parametrize(
    ("failed", "sentence"),
    [
        (
            Failed("check", "wrong_result", "first at C[0][1]: got 3, expected 4.\n", line=12),
            "fails its check (wrong result): first at C[0][1]: got 3, expected 4; the kernel "
            "and the reference give different results, so correct the one that is wrong.",
        ),
        (
            Failed("build", "compile_error", "In function kernel:\nk.c:7:2: error: no x\n|^", 7),
            "does not build (compile error): k.c:7:2: error: no x; correct the kernel.",
        ),
        (
            Failed("measure", "crash", "Traceback:\n  File\nKeyError: 'x'\n"),
            "cannot be measured (crash): KeyError: 'x'.",
        ),
        (
            Failed("check", "not_checked", "k.py:7: not checked: only PyTorch can tell.\n"),
            "cannot be checked here, and a search needs one that can: k.py:7: not checked: only "
            "PyTorch can tell. Check a kernel of your own with `tilewright evaluate FILE "
            "--workload toy:digits`.",
        ),
        (
            Failed("build", "limit_exceeded", ""),
            "does not build (limit exceeded): no log; correct the kernel.",
        ),
        (
            Failed("check", "timeout", "the kernel was stopped after 60 s of processor time.\n"),
            "was not checked in time: the kernel was stopped after 60 s of processor time. This "
            "does not show that the kernel is wrong: use a smaller size or a faster machine, and "
            "correct the kernel only if it does not end.",
        ),
    ],
)
def test_a_starting_kernel_that_fails_is_the_users_error(
    world: World, tmp_path: Path, failed: Failed, sentence: str
) -> None:
    world.fails = failed
    expected = InternalError if failed.kind == "crash" else WorkloadError
    with pytest.raises(expected) as raised:
        run.optimize("toy:digits", QUICK, project=tmp_path)
    assert str(raised.value) == f"the starting kernel of toy:digits {sentence}"
    stored = run.open_project(tmp_path).runs()
    assert [r.status for r in stored] == ["finished"]
    world.fails = None
    assert run.optimize("toy:digits", QUICK, project=tmp_path).verdict == "correct"


def test_what_to_do_about_a_tolerance_is_said_where_the_user_sets_it() -> None:
    failed = Failed("check", "wrong_result", "got 3.1, expected 3 within 0.01 (small inputs)")
    advice = "describe the inputs in workload.toml"
    assert advice in str(start_error("/home/me/mine", failed))
    assert advice not in str(start_error("toy:digits", failed))


def test_a_kernel_with_an_empty_body_is_told_to_be_written() -> None:
    failed = Failed("check", "wrong_result", "4 of 4 elements of C differ, first at C[0][0]")
    source = "void kernel(const float x[4],\n  float C[4]) {\n  // Write {loops} here.\n}\n"
    said = str(start_error("/home/me/mine", failed, source))
    assert "body of its function `kernel` is empty: write code there" in said
    assert "is empty" not in str(start_error("/home/me/mine", failed, "void kernel() { f(); }"))


def test_a_reference_that_returns_nan_is_named_as_the_cause() -> None:
    log = "4 of 4 elements of C differ, first at C[0][0]: got 3.1, expected nan within nan"
    said = str(start_error("/home/me/mine", Failed("check", "wrong_result", log)))
    assert "the reference returns NaN, which no kernel can match: correct the reference" in said
    assert "tolerance" not in said


def test_an_error_of_the_machine_leaves_the_run_resumable(world: World, tmp_path: Path) -> None:
    def fail(event: Event) -> None:
        if isinstance(event, Evaluated) and event.trial.index == 4:
            raise RuntimeError("the device is gone")

    with pytest.raises(RuntimeError, match="the device is gone"):
        run.optimize("toy:digits", QUICK, project=tmp_path, on_event=fail)
    (stored,) = run.open_project(tmp_path).runs()
    assert stored.status == "interrupted"
    assert stored.stop_reason == "RuntimeError: the device is gone"
    assert run.optimize("toy:digits", QUICK, project=tmp_path).run_id == stored.id


def test_evaluate_kernel_uses_the_projects_cache(world: World, tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.c"
    kernel.write_text("toy 1 2 3 4 5")
    first = evaluating.evaluate_kernel(kernel, "toy:digits", QUICK, project=tmp_path)
    again = evaluating.evaluate_kernel(kernel, "toy:digits", QUICK, project=tmp_path)
    assert (first.workload, first.target) == ("toy:digits", "toy")
    assert first.outcome == again.outcome
    assert (first.cached, again.cached) == (False, True)
    assert first.versions["toy"] == "1"


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_kernel_file_that_cannot_be_read(
    world: World, tmp_path: Path, content: bytes | None
) -> None:
    kernel = tmp_path / "kernel.c"
    if content is not None:
        kernel.write_bytes(content)
    with pytest.raises(InputError, match=r"kernel.c cannot be read"):
        evaluating.evaluate_kernel(kernel, "toy:digits", QUICK, project=tmp_path)


class OpenTaskOfDigits(ToyTask):
    """The toy task with the role `Attackable`, whose winners are evaluated again."""

    def check_cases(self) -> list[object]:
        return []

    def hostile_kernels(self) -> dict[str, str]:
        return {}


def test_a_winner_that_fresh_inputs_refute_gives_way(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "require_preflight", lambda *given: None)
    monkeypatch.setattr(world.target, "open", lambda spec, settings: OpenTaskOfDigits())
    asked: list[str] = []

    def recheck(
        task: str, settings: object, candidate: Candidate, checkpoint: Checkpoint
    ) -> Outcome:
        asked.append(candidate.source)
        if len(asked) <= 2:
            return Failed("check", "wrong_result", "only right for the seeds of the run")
        return toy_outcome(candidate.source)

    monkeypatch.setattr(confirming, "recheck", recheck)
    summary = run.optimize("toy:digits", QUICK, project=tmp_path)
    assert summary.confirmed
    assert summary.best_latency == toy_outcome(asked[2]).latency
    with closing(run.open_project(tmp_path)) as storage:
        history = storage.history(summary.run_id)
        refuted = [t for t in history if getattr(t.outcome, "kind", "") == "unconfirmed"]
        assert sorted(t.candidate.source for t in refuted) == sorted(asked[:2])
        notes = storage.kept(summary.run_id, Rechecked)
    assert [note.confirmed for note in notes] == [False, False, True]


def test_of_latencies_that_vary_the_second_measurement_counts(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A winner that only was lucky is overtaken by the next one, which is measured again too."""
    monkeypatch.setattr(run, "require_preflight", lambda *given: None)
    monkeypatch.setattr(world.target, "open", lambda spec, settings: OpenTaskOfDigits())
    asked: list[str] = []

    def recheck(
        task: str, settings: object, candidate: Candidate, checkpoint: Checkpoint
    ) -> Outcome:
        asked.append(candidate.source)
        found = toy_outcome(candidate.source)
        assert isinstance(found, Measured)
        slower = 1.2 if len(asked) == 1 else 1.0
        return replace(found, latency=found.latency * slower, quantity="measured", noise=0.3)

    monkeypatch.setattr(confirming, "recheck", recheck)
    summary = run.optimize("toy:digits", QUICK, project=tmp_path)
    assert summary.confirmed
    with closing(run.open_project(tmp_path)) as storage:
        history = storage.history(summary.run_id)
    first = next(t for t in history if t.candidate.source == asked[0])
    assert first.latency == pytest.approx(toy_outcome(asked[0]).latency * 1.2)
    assert len(asked) == len(set(asked)) > 1
    assert summary.best_latency == min(t.latency for t in history if t.latency is not None)


def test_nothing_is_confirmed_where_nothing_was_found(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "require_preflight", lambda *given: None)
    monkeypatch.setattr(world.target, "open", lambda spec, settings: OpenTaskOfDigits())
    monkeypatch.setattr(confirming, "recheck", None)
    summary = run.optimize("toy:digits", replace(QUICK, iterations=0), project=tmp_path)
    assert not summary.confirmed


class TestSecret:
    """The seed of a run's private inputs."""

    def test_each_run_has_one_that_only_the_user_may_read(
        self, world: World, tmp_path: Path
    ) -> None:
        for seed in (1, 2):
            run.optimize("toy:digits", replace(QUICK, seed=seed), project=tmp_path)
        first, second = world.input_seeds
        assert first != second
        files = list((tmp_path / ".tilewright" / "secrets").iterdir())
        assert sorted(file.read_text() for file in files) == sorted(map(str, world.input_seeds))
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
        assert int(str(first)).bit_length() > 32

    def test_it_is_in_no_file_and_no_record_of_the_run(self, world: World, tmp_path: Path) -> None:
        summary = run.optimize("toy:digits", QUICK, project=tmp_path)
        secret = str(world.input_seeds[0])
        with closing(run.open_project(tmp_path)) as storage:
            stored, history = storage.run(summary.run_id), storage.history(summary.run_id)
        assert "input_seed" not in stored.settings
        texts = [repr(stored), repr(list(history)), json.dumps(summary_json(summary))]
        texts += [render_report(stored, history, command_line(stored))]
        texts += [
            file.read_bytes().decode("latin-1")
            for file in tmp_path.rglob("*")
            if file.is_file() and file.parent.name != "secrets"
        ]
        assert not [text for text in texts if secret in text]

    def test_a_run_that_goes_on_keeps_it(self, world: World, tmp_path: Path) -> None:
        world.interrupt_after = 4
        summary = run.optimize("toy:digits", QUICK, project=tmp_path)
        run.resume(summary.run_id, project=tmp_path)
        run.optimize("toy:digits", QUICK, project=tmp_path)
        assert len(world.input_seeds) == 3
        assert len(set(world.input_seeds)) == 1

    def test_without_its_file_another_one_is_drawn(self, world: World, tmp_path: Path) -> None:
        world.interrupt_after = 4
        summary = run.optimize("toy:digits", QUICK, project=tmp_path)
        file = tmp_path / ".tilewright" / "secrets" / summary.run_id
        file.write_text("torn")
        world.interrupt_after = None
        assert run.resume(summary.run_id, project=tmp_path).status == "finished"
        first, second = world.input_seeds
        assert first != second
        assert file.read_text() == str(second)

    def test_one_that_is_given_is_a_setting(self, world: World, tmp_path: Path) -> None:
        summary = run.optimize("toy:digits", replace(QUICK, input_seed=7), project=tmp_path)
        assert world.input_seeds == [7]
        with closing(run.open_project(tmp_path)) as storage:
            stored = storage.run(summary.run_id)
        assert stored.settings["input_seed"] == 7
        assert "--input-seed 7" in command_line(stored)

    def test_kernels_outside_runs_share_one_in_a_project(
        self, world: World, tmp_path: Path
    ) -> None:
        kernel = tmp_path / "kernel.c"
        kernel.write_text(START)
        for _ in range(2):
            evaluating.evaluate_kernel(kernel, "toy:digits", QUICK, project=tmp_path)
        first, second = world.input_seeds
        assert first == second
