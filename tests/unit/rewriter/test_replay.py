"""A schedule found for one size is carried over to another size of the same kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernel_model import gemm_is_right

from tilewright.core.records import (
    Brief,
    Candidate,
    History,
    Measured,
    Plan,
    Schedule,
    TargetBrief,
    Trial,
    Verdict,
    Workload,
)
from tilewright.proposers.rewriter import create_proposer
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.targets.gemmini import create_target

STEPS = "block-load B k; resident A j before; overwrite C; pipeline A i 3"


def schedule(*steps: str) -> Schedule:
    plans = tuple(
        Plan("p", f"option-{i}", "", "builtin", {"steps": s}) for i, s in enumerate(steps)
    )
    return Schedule(
        "gemmini:other", plans, tuple(100.0 - i for i in range(len(steps) + 1)), "cycles"
    )


def start(m: int, n: int, k: int) -> Trial:
    outcome = Measured(1000.0, "cycles", "simulated", 0.3, Verdict(()))
    source = create_target().open(f"gemm-{m}x{n}x{k}", {}).start
    return Trial(0, 0, Candidate(source), outcome)


def planned(
    target: TargetBrief, parent: Trial, found: Schedule | None, iteration: int = 1
) -> list[Plan]:
    schedules = () if found is None else (found,)
    brief = Brief(Workload("w", "gemmini", (), 1), target, target.menu, iteration, 15, 0, schedules)
    return create_proposer().plan(brief, parent, History([parent]), 4, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(64, 144, 64), (96, 128, 80), (48, 80, 40)])
def test_the_first_plan_is_the_whole_schedule(
    target: TargetBrief, machine: Machine, shape: tuple[int, int, int]
) -> None:
    parent = start(*shape)
    first, second, *rest = STEPS.split("; ")
    found = schedule(first, second, "; ".join(rest))
    plan = planned(target, parent, found)[0]
    assert plan.parameters["steps"] == STEPS
    assert plan.text.startswith("As in gemmini:other: ")
    brief = Brief(Workload("w", "gemmini", (), 1), target, target.menu, 1, 15)
    made = create_proposer().implement(brief, parent, plan, 2, seed=1)
    assert made
    for candidate in made:
        assert gemm_is_right(lift(candidate.source, machine), *shape)


def test_what_does_not_fit_is_made_smaller_or_left_out(target: TargetBrief) -> None:
    found = schedule("retile i 4; resident Z j before", "nonsense; pipeline B k 9")
    steps = str(planned(target, start(32, 64, 64), found)[0].parameters["steps"]).split("; ")
    assert "retile i 2" in steps
    assert not any(step.startswith(("resident", "nonsense")) for step in steps)


def test_only_the_first_iteration_takes_it_up(target: TargetBrief) -> None:
    parent = start(64, 64, 64)
    assert planned(target, parent, schedule(STEPS), 2) == planned(target, parent, None, 2)


def test_a_schedule_without_steps_changes_nothing(target: TargetBrief) -> None:
    told = Schedule("other", (Plan("p", "tile", "Tile it.", "openai/a"),), (2.0, 1.0), "cycles")
    parent = start(64, 64, 64)
    assert planned(target, parent, told) == planned(target, parent, None)


def test_of_several_schedules_the_nearest_is_first_and_the_most_promising_next(
    target: TargetBrief,
) -> None:
    parent = start(64, 144, 64)
    brief = Brief(Workload("w", "gemmini", (), 1), target, target.menu, 1, 15)
    several = (schedule("retile i 2"), schedule(STEPS))
    plans = create_proposer().plan(
        replace(brief, schedules=several), parent, History([parent]), 2, 1
    )
    first, second, *_ = (str(plan.parameters["steps"]) for plan in plans)
    assert first == "retile i 2"
    assert second != first
    assert second.startswith((STEPS, first))  # as it is, or with what the estimate adds


OVERLAPPED = (
    "overwrite C; keep-operand i {}; retile j 4; resident B i before; block-load A k#2; "
    "coalesce k#2; double-accumulator C i 2 delayed; interleave i; pipeline A i 2; interleave i; "
    "unroll kjj 0; unroll jj2#17 2; pack"
)


def steps_of(target: TargetBrief, parent: Trial, found: Schedule, count: int) -> list[str]:
    brief = Brief(Workload("w", "gemmini", (), 1), target, target.menu, 1, 15, 0, (found,))
    plans = create_proposer().plan(brief, parent, History([parent]), count, seed=1)
    reused = [plan for plan in plans if plan.text.startswith("As in ")]
    return [str(plan.parameters["steps"]) for plan in reused]


def test_a_schedule_is_also_tried_with_the_numbers_of_tiles_of_the_new_shape(
    target: TargetBrief,
) -> None:
    # Of a shape with half the columns, twice as many rows of tiles fit into the same memory.
    made = steps_of(target, start(1568, 128, 64), schedule(OVERLAPPED.format(2)), 6)
    assert "keep-operand i 2" in made[0]
    assert any("keep-operand i 4" in steps and "pipeline A i 2" in steps for steps in made)
    # The number of a step may also be 1: the step is then left out.
    assert any("keep-operand" not in steps and "pipeline A i 2" in steps for steps in made)


def test_numbers_of_tiles_with_a_worse_estimate_are_not_tried(target: TargetBrief) -> None:
    made = steps_of(target, start(1568, 256, 64), schedule(OVERLAPPED.format(2)), 6)
    assert "keep-operand i 2" in made[0]
    assert not any("keep-operand i 4" in steps for steps in made)  # no room for two results


def test_a_search_with_a_schedule_has_all_first_plans_of_one_without_too(
    target: TargetBrief,
) -> None:
    parent = start(64, 144, 64)
    alone = [plan.parameters["steps"] for plan in planned(target, parent, None)]
    plans = planned(target, parent, schedule("retile i 2"))
    own = [plan.parameters["steps"] for plan in plans if not plan.is_reused]
    assert plans[0].is_reused
    assert own[0] == alone[0]
    assert len(own) == len(alone) == 4


def test_a_schedule_is_carried_out_without_variants(target: TargetBrief) -> None:
    parent = start(64, 144, 64)
    reused, own = planned(target, parent, schedule(STEPS))[0], planned(target, parent, None)[0]
    brief = Brief(Workload("w", "gemmini", (), 1), target, target.menu, 1, 15)
    made = [create_proposer().implement(brief, parent, plan, 2, seed=1) for plan in (reused, own)]
    assert [len(candidates) for candidates in made] == [1, 2]
