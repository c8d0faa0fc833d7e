"""The parts of the static estimate by which first schedules are chosen."""

from __future__ import annotations

from tilewright.core.records import Brief, Candidate, History, Measured, Trial, Verdict, Workload
from tilewright.proposers.builtin import BuiltinProposer
from tilewright.proposers.rewriter.estimate.cost import Cost, estimate
from tilewright.proposers.rewriter.estimate.expectation import parts
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.reading import read
from tilewright.targets.gemmini import create_target


def cost(array: float, moves: float, core: float) -> Cost:
    return Cost(array, moves, core, exposed=10.0, loaded_rows=1.0)


def test_a_kernel_whose_moves_or_commands_take_long_is_expected_to_be_slower() -> None:
    """Their time overlaps that of the products, but never completely."""
    idle, moves, core = cost(990, 100, 100), cost(990, 950, 100), cost(990, 100, 950)
    assert idle.total == moves.total == core.total == 1000
    assert 1000 < idle.with_contention < 1001
    assert moves.with_contention == core.with_contention > 1080


def test_nothing_takes_no_time() -> None:
    nothing = Cost(0, 0, 0, 0, 0)
    assert nothing.with_contention == 0


def test_each_plan_has_the_estimate_of_its_kernel() -> None:
    target = create_target().brief()
    start = Candidate(create_target().open("gemm-64x64x64", {}).start)
    parent = Trial(0, 0, start, Measured(9e4, "cycles", "simulated", 0.1, Verdict()))
    brief, history = Brief(Workload("w", "gemmini", (), 1), target, target.menu, 1, 9), [parent]
    proposer = BuiltinProposer()
    plans = proposer.plan(brief, parent, History(history), 2, seed=1)
    assert plans
    for plan in plans:
        made = proposer.implement(brief, parent, plan, 1, 0)[0]
        machine = Machine.of(target)
        assert plan.estimated == parts(estimate(read(made.source, machine), machine))
