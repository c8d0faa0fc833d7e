"""The numbers in the steps that made a kernel, and the instances that other numbers give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from kernel_model import gemm_is_right

from tilewright.core.factors import StepFactors
from tilewright.core.records import (
    Brief,
    Candidate,
    Failed,
    History,
    Measured,
    Outcome,
    Plan,
    TargetBrief,
    Trial,
    Verdict,
    Workload,
)
from tilewright.core.templates import TriedPoint, planned_values
from tilewright.proposers import factors
from tilewright.proposers.builtin import BuiltinProposer
from tilewright.proposers.factors import BEYOND
from tilewright.proposers.learning import evidence
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.targets.gemmini import create_target

WHATEVER_THE_ESTIMATE = pytest.mark.usefixtures("every_number")
FIRST = "retile i 2; pipeline B k 2; resident A j before"
SECOND = "overwrite C; double-buffer B k 3"


@pytest.fixture
def every_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factors, "WITHIN", 100.0)


class Run:
    """Kernels made by plans of the built-in proposer, each with an outcome."""

    def __init__(self, target: TargetBrief, m: int = 128, n: int = 144, k: int = 64) -> None:
        self.size = m, n, k
        self.proposer = BuiltinProposer()
        self.brief = Brief(Workload("w", "gemmini", (), 1), target, target.menu, 2, 15)
        self.history = History()
        self.add(Candidate(create_target().open(f"gemm-{m}x{n}x{k}", {}).start), 1000.0)

    def add(self, candidate: Candidate, outcome: float | Outcome) -> Trial:
        if isinstance(outcome, float):
            outcome = Measured(outcome, "cycles", "simulated", 0.3, Verdict(()))
        trial = Trial(len(self.history), len(self.history), candidate, outcome)
        self.history = self.history.extended([trial])
        return trial

    def made(self, parent: Trial, plan: Plan) -> Candidate:
        (made,) = self.proposer.implement(self.brief, parent, plan, 1, 0)
        return made

    def by_steps(self, parent: Trial, steps: str, latency: float, **more: str | int) -> Trial:
        parameters: Mapping[str, str | int] = {"steps": steps, **more}
        plan = Plan(parent.candidate.id, "an-option", steps, "builtin", parameters)
        return self.add(self.made(parent, plan), latency)

    def factors(self, kernel: Trial) -> StepFactors:
        found = self.proposer.factors(self.brief.target, kernel, self.history)
        assert found is not None
        return found


@WHATEVER_THE_ESTIMATE
def test_each_instance_has_one_other_number_and_all_later_steps_again(
    target: TargetBrief, machine: Machine
) -> None:
    run = Run(target)
    middle = run.by_steps(run.history[0], FIRST, 500.0)
    kernel = run.by_steps(middle, SECOND, 400.0)
    found = run.factors(kernel)
    own = (2, 2, 3)
    assert found.tried == (TriedPoint(own, 400.0),)
    assert [p.name for p in found.parameters] == ["retile i", "pipeline B k", "double-buffer B k"]
    assert (4, 2, 3) in found.plans
    assert all(sum(a != b for a, b in zip(own, p, strict=True)) == 1 for p in found.plans)
    for point, plan in found.plans.items():
        assert plan.parent_id == kernel.candidate.id
        assert plan.option == "an-option"
        assert plan.is_instance
        assert plan.measured_beyond == BEYOND / 100
        assert tuple(planned_values(plan.parameters).values()) == point
        made = run.made(kernel, plan)
        assert gemm_is_right(lift(made.source, machine), *run.size)
        again = run.made(run.history[0], with_numbers(plan, *point))
        assert again.source == made.source


def with_numbers(plan: Plan, tiles: int, ahead: int, slots: int) -> Plan:
    """A plan of the whole way from the start."""
    steps = f"retile i {tiles}; pipeline B k {ahead}; resident A j before; overwrite C"
    return replace(plan, parameters={"steps": f"{steps}; double-buffer B k {slots}"})


@WHATEVER_THE_ESTIMATE
def test_a_plan_goes_back_no_further_than_it_must(target: TargetBrief) -> None:
    run = Run(target)
    middle = run.by_steps(run.history[0], "resident A j before; overwrite C", 500.0)
    kernel = run.by_steps(middle, "pipeline B k 2", 400.0)
    plan = next(iter(run.factors(kernel).plans.values()))
    assert plan.parameters["base"] == middle.candidate.id
    assert plan.steps == ("pipeline B k 3",)


@WHATEVER_THE_ESTIMATE
def test_instances_of_a_kernel_are_points_of_one_space(target: TargetBrief) -> None:
    run = Run(target)
    kernel = run.by_steps(run.history[0], FIRST, 500.0)
    first, second, *_ = run.factors(kernel).plans.items()
    faster = run.add(run.made(kernel, first[1]), 450.0)
    stopped = Failed("measure", "slower_than_limit", "", bound=700.0)
    run.add(run.made(kernel, second[1]), stopped)
    found = run.factors(faster)
    assert set(found.tried) == {
        TriedPoint((2, 2), 500.0),
        TriedPoint(first[0], 450.0),
        TriedPoint(second[0], None, 700.0),
    }
    assert not {point.point for point in found.tried} & set(found.plans)
    assert len(found.points()) == len(found.estimates()) == len(found.plans) + 3
    heads = {plan.parameters["instance"] for plan in found.plans.values()}
    assert heads == {kernel.candidate.id}


@WHATEVER_THE_ESTIMATE
def test_a_number_that_later_steps_overwrite_gives_no_instance(target: TargetBrief) -> None:
    run = Run(target)
    kernel = run.by_steps(run.history[0], "double-buffer B k 2; pipeline B k 3", 500.0)
    assert not {p for p in run.factors(kernel).plans if p[0] != 2}


def test_numbers_whose_estimate_is_much_worse_are_left_out(target: TargetBrief) -> None:
    run = Run(target, 256, 256, 512)
    kernel = run.by_steps(run.history[0], f"{FIRST}; overwrite C", 500.0)
    found = run.factors(kernel)
    gains = [plan.expected_gain or 0.0 for plan in found.plans.values()]
    assert (2, 3) in found.plans
    assert (2, 8) not in found.plans  # buffers in one bank: half as slow again
    assert min(gains) > 0.95


def test_kernels_without_numbers_in_their_steps_have_no_factors(target: TargetBrief) -> None:
    run = Run(target)
    kernel = run.by_steps(run.history[0], "resident A j before; overwrite C", 500.0)
    assert run.proposer.factors(target, kernel, run.history) is None
    assert run.proposer.factors(target, run.history[0], run.history) is None


@WHATEVER_THE_ESTIMATE
def test_an_instance_is_one_candidate_without_variants(target: TargetBrief) -> None:
    run = Run(target)
    kernel = run.by_steps(run.history[0], FIRST, 500.0)
    plan = next(iter(run.factors(kernel).plans.values()))
    assert len(run.proposer.implement(run.brief, kernel, plan, 4, 0)) == 1


@WHATEVER_THE_ESTIMATE
def test_what_numbers_bring_says_nothing_of_the_options_of_the_menu(target: TargetBrief) -> None:
    run = Run(target)
    kernel = run.by_steps(run.history[0], FIRST, 500.0)
    before = evidence(run.history)
    plan = next(iter(run.factors(kernel).plans.values()))
    run.add(run.made(kernel, plan), 100.0)
    assert evidence(run.history).keys() == before.keys() == {"an-option"}
    assert evidence(run.history)["an-option"].paid <= before["an-option"].paid


def test_only_targets_of_commands_offer_factors(target: TargetBrief) -> None:
    from tilewright.targets.host_c import create_target as host_c

    assert BuiltinProposer().offers_factors(target)
    assert not BuiltinProposer().offers_factors(host_c().brief())
