"""An earlier run's schedule: what it is, and that it reaches proposers unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.core.config import Settings
from tilewright.core.errors import InputError
from tilewright.core.records import (
    Candidate,
    History,
    Measured,
    MenuOption,
    Plan,
    RunRecord,
    Schedule,
    Trial,
    Verdict,
)
from tilewright.core.roles import Storage
from tilewright.core.run_notes import ReusedSchedule
from tilewright.search.beam import BeamSearch
from tilewright.search.reuse import (
    BREADTH,
    ReuseFirst,
    ReusePhase,
    distance,
    nearest_schedules,
    schedule_of,
)
from tilewright.storage.project import open_project

RUN = RunRecord("r1", "toy:digits", "toy", {}, {}, "2026-11-21")


def measured(index: int, source: str, latency: float, plan: Plan | None = None) -> Trial:
    outcome = Measured(latency, "cycles", "simulated", 0.5, Verdict(()))
    parent = plan.parent_id if plan else None
    return Trial(index, index, Candidate(source, parent, plan), outcome)


def plan(parent: Trial, option: str, base: Trial | None = None) -> Plan:
    parameters = {"base": base.candidate.id} if base else {}
    return Plan(parent.candidate.id, option, f"Do {option}.", "p", parameters)


START = measured(0, "start", 100.0)
FIRST = measured(1, "first", 80.0, plan(START, "a"))
SECOND = measured(2, "second", 60.0, plan(FIRST, "b"))


def test_it_is_the_way_to_the_best_kernel() -> None:
    other = measured(3, "other", 70.0, plan(START, "c"))
    found = schedule_of(RUN, History([START, FIRST, SECOND, other]))
    assert [p.option for p in found.plans] == ["a", "b"]
    assert found.latencies == (100.0, 80.0, 60.0)
    assert (found.workload, found.unit) == ("toy:digits", "cycles")


def test_a_plan_that_went_back_follows_on_what_it_went_back_to() -> None:
    back = measured(3, "back", 50.0, plan(SECOND, "d", base=FIRST))
    found = schedule_of(RUN, History([START, FIRST, SECOND, back]))
    assert [p.option for p in found.plans] == ["a", "d"]
    assert found.latencies == (100.0, 80.0, 50.0)


@pytest.mark.parametrize("trials", [[], [START], [replace(START, outcome=FIRST.outcome)]])
def test_nothing_found_is_nothing_to_reuse(trials: list[Trial]) -> None:
    with pytest.raises(InputError, match="no faster kernel yet"):
        schedule_of(RUN, History(trials))


def test_the_distance_is_that_of_the_sizes_of_one_kind() -> None:
    near = distance("toy:gemm-64x64x64", "toy:gemm-64x64x128")
    far = distance("toy:gemm-64x64x64", "toy:gemm-64x128x128")
    assert near is not None
    assert far is not None
    assert 0 < near < far


@pytest.mark.parametrize(
    "other",
    [
        "toy:gemm-64x64x64",
        "toy:conv-64x64x64",
        "toy:gemm-64x64",
        "other:gemm-64x64x32",
        "toy:gemm-64x64x2048",
        "/home/someone/gemm-64x64x32",
    ],
)
def test_the_same_workload_another_kind_or_a_folder_is_not_near(other: str) -> None:
    assert distance("toy:gemm-64x64x64", other) is None


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    with closing(open_project(tmp_path, create=True)) as opened:
        yield opened


def kept_run(
    storage: Storage, run_id: str, task: str, best: float | None = None, **settings: object
) -> RunRecord:
    """A stored run whose best kernel has this latency; None for a run that found nothing."""
    chosen = Settings(**settings).recorded()  # type: ignore[arg-type]
    run = RunRecord(run_id, task, "toy", chosen, {}, f"2026-11-21T00:00:0{len(storage.runs())}")
    storage.create_run(run)
    storage.append_trial(run_id, START)
    if best is not None:
        storage.append_trial(run_id, measured(1, f"best {run_id}", best, plan(START, run_id)))
    return run


def test_the_nearest_runs_of_the_project_are_offered_each_by_its_best(storage: Storage) -> None:
    kept_run(storage, "far", "toy:gemm-8x8x8", 50.0)
    kept_run(storage, "near", "toy:gemm-2x8x2", 50.0)
    kept_run(storage, "slower", "toy:gemm-2x8x2", 60.0)
    kept_run(storage, "nothing", "toy:gemm-2x2x4")
    kept_run(storage, "conv", "toy:conv-2x2x4", 50.0)
    kept_run(storage, "itself", "toy:gemm-2x2x2", 50.0, seed=9)
    kept_run(storage, "machine", "toy:gemm-2x2x4", 50.0, target_settings={"ordering": "timing"})
    new = kept_run(storage, "new", "toy:gemm-2x2x2")
    found = nearest_schedules(new, storage)
    assert [(note.run, note.chosen) for note in found] == [("near", True), ("far", True)]
    assert [p.option for p in found[0].schedule.plans] == ["near"]


def test_a_run_with_a_larger_budget_begins_as_the_one_before(storage: Storage) -> None:
    before = kept_run(storage, "before", "toy:gemm-2x2x2", max_evaluations=5)
    offered = ReusedSchedule(Schedule("toy:gemm-4x4x4", (), (1.0,), "cycles"), "r", chosen=True)
    storage.keep(before.id, offered)
    kept_run(storage, "since", "toy:gemm-2x2x4", 50.0)
    again = kept_run(storage, "again", "toy:gemm-2x2x2", max_evaluations=50)
    assert nearest_schedules(again, storage) == [offered]
    other = kept_run(storage, "other", "toy:gemm-2x2x2", seed=4)
    assert [note.run for note in nearest_schedules(other, storage)] == ["since"]


MENU = (MenuOption("a", "A."), MenuOption("b", "B."))
FOUND = Schedule(
    "toy:digits",
    (plan(START, "b"), plan(START, "gone"), plan(START, "a")),
    (4.0, 3.0, 2.0, 1.0),
    "cycles",
)


def test_recorded_plans_are_taken_up_one_at_a_time_by_a_narrow_search() -> None:
    phase = ReusePhase.of((FOUND,), MENU, replays=False)
    assert [phase.step(n) for n in range(1, 5)] == [0, 2, None, None]
    assert [[o.id for o in phase.menu(n, MENU)] for n in (1, 2, 3)] == [["b"], ["a"], ["a", "b"]]
    assert [phase.breadth(n, 6) for n in (1, 2, 3)] == [BREADTH, BREADTH, 6]
    assert phase.breadth(1, 1) == 1


def test_who_replays_schedules_needs_no_narrow_search() -> None:
    phase = ReusePhase.of((FOUND,), MENU, replays=True)
    assert (phase.iterations, phase.step(1), phase.menu(1, MENU)) == (0, None, MENU)
    assert phase.breadth(1, 6) == 6
    assert ReusePhase.of((), MENU, replays=False).iterations == 0


def test_the_search_at_large_has_its_iterations_and_patience_after_the_phase() -> None:
    strategy = ReuseFirst(BeamSearch(6, iterations=5, patience=2), 3, 2, 5)
    history = History([START, FIRST, SECOND, measured(3, "no gain", 70.0, plan(START, "c"))])
    assert len(strategy.select(History([START, FIRST]))) == BREADTH
    assert len(strategy.select(history)) > BREADTH
    stuck = history.extended([measured(n, f"worse {n}", 90.0, plan(START, "c")) for n in (4, 5)])
    assert BeamSearch(6, 5, 2).should_stop(stuck, 3) is not None
    assert [strategy.should_stop(stuck, n) is None for n in (3, 5, 6)] == [True, True, False]
    assert strategy.should_stop(history, 9) == "all 5 iterations are done"
