"""A schedule found for one size of a loop nest is carried over to another size."""

from __future__ import annotations

from tilewright.core.plugins import load_proposer
from tilewright.core.records import (
    Brief,
    Candidate,
    History,
    Measured,
    Plan,
    Schedule,
    Trial,
    Verdict,
)
from tilewright.proposers.loops.planning.replay import replayed
from tilewright.proposers.loops.reading import read_kernel
from tilewright.targets.host_c import create_target

BRIEF = create_target().brief()


def schedule(*steps: str) -> Schedule:
    plans = tuple(
        Plan("p", f"option-{n}", "", "builtin", {"steps": s}) for n, s in enumerate(steps)
    )
    return Schedule("host-c:other", plans, (9.0,) * (len(plans) + 1), "ns")


def steps_for(workload: str, found: Schedule) -> list[str]:
    task = create_target().open(workload, {})
    return [str(step) for step, _ in replayed(found, read_kernel(task.start, BRIEF, task.workload))]


def test_steps_hold_for_another_size_and_the_others_are_left_out() -> None:
    found = schedule("vectorise 1 8", "pack 0 0; nonsense 1 2; vectorise 77 8")
    assert steps_for("gemm-32x48x24", found) == ["vectorise 1 8", "pack 0 0"]


def test_a_factor_that_does_not_fit_is_made_smaller() -> None:
    kept = steps_for("gemm-12x48x24", schedule("block 0 32"))
    assert kept
    assert all(int(step.split()[2]) < 32 for step in kept)


def test_the_first_plan_of_a_run_is_the_whole_schedule() -> None:
    task = create_target().open("gemm-32x48x24", {})
    parent = Trial(0, 0, Candidate(task.start), Measured(9.0, "ns", "measured", 0.1, Verdict(())))
    schedules = (schedule("vectorise 1 8", "pack 0 0"),)
    for iteration, wanted in ((1, True), (2, False)):
        brief = Brief(task.workload, BRIEF, BRIEF.menu, iteration, 15, schedules=schedules)
        first, *_ = load_proposer("builtin").plan(brief, parent, History([parent]), 2, 1)
        assert first.text.startswith("As in host-c:other: ") == wanted
        assert (first.parameters["steps"] == "vectorise 1 8; pack 0 0") == wanted
