"""Random walks: what a search tries once it has found nothing better for a while."""

from __future__ import annotations

import random
from dataclasses import replace

from kernel_model import gemm, gemm_is_right

from tilewright.core.records import (
    Brief,
    Candidate,
    History,
    Measured,
    Plan,
    TargetBrief,
    Trial,
    Verdict,
    Workload,
)
from tilewright.proposers.rewriter import create_proposer
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.random_walk import (
    STALE,
    is_stale,
    random_walk,
    tried_from,
)

SHAPE = (24, 100, 40)
START = Trial(
    0, 0, Candidate(gemm(*SHAPE)), Measured(1000.0, "cycles", "simulated", 0.3, Verdict(()))
)


def brief(target: TargetBrief, iteration: int) -> Brief:
    """Dropout has left a single option."""
    return Brief(Workload("w", "gemmini", (), 1), target, target.menu[:1], iteration, 99)


def slower(number: int, plan: Plan) -> Trial:
    """A child that did not pay."""
    child = Candidate(f"void kernel() {{ {number}; }}", START.candidate.id, plan, "builtin")
    return Trial(number, 1, child, replace(START.outcome, latency=2000.0))


def test_a_search_is_stale_once_its_best_kernel_is_older_than_some_iterations() -> None:
    assert not is_stale(START, History(), 99)
    assert not is_stale(START, History([START]), STALE)
    assert is_stale(START, History([START]), STALE + 1)
    better = Trial(1, 3, Candidate("x"), replace(START.outcome, latency=1.0))
    assert not is_stale(START, History([START, better]), STALE + 1)
    hardly = Trial(1, 3, Candidate("x"), replace(START.outcome, latency=999.9))
    assert is_stale(START, History([START, hardly]), STALE + 1)


def test_what_began_anew_is_stale_by_its_own_best_kernel() -> None:
    plan = Plan(START.candidate.id, "o", "t", "builtin", {"anew": 1})
    nest = slower(1, plan)
    child = Candidate("child", nest.candidate.id)
    later = Trial(2, STALE, child, replace(START.outcome, latency=1900.0))
    history = History([START, nest, later])
    assert is_stale(START, history, STALE + 2)
    assert not is_stale(nest, history, STALE + 2)
    assert is_stale(later, history, 2 * STALE + 1)


def test_walks_are_right_and_never_one_that_was_tried(
    target: TargetBrief, machine: Machine
) -> None:
    history = History([START])
    proposer = create_proposer()
    seen: set[str] = set()
    for seed in range(3):
        plans = proposer.plan(brief(target, STALE + 1), START, history, 4, seed)
        found = {str(plan.parameters["steps"]) for plan in plans}
        assert len(found) == 4
        assert not found & seen
        seen |= found
        history = history.extended([slower(len(history) + n, plan) for n, plan in enumerate(plans)])
        assert tried_from(START, history) == seen
        for plan in plans:
            for candidate in proposer.implement(brief(target, STALE + 1), START, plan, 2, seed):
                assert gemm_is_right(lift(candidate.source, machine), *SHAPE), plan.text
    assert max(steps.count(";") for steps in seen) > 0


def test_walks_follow_from_their_seed(target: TargetBrief, machine: Machine) -> None:
    kernel = lift(START.candidate.source, machine)
    walks = [
        [
            d.steps
            for d in random_walk(kernel, machine, target.menu, frozenset(), 3, random.Random(seed))
        ]
        for seed in (1, 1, 2)
    ]
    assert walks[0] == walks[1] != walks[2]


def test_a_kernel_that_nothing_applies_to_has_no_walks(
    target: TargetBrief, machine: Machine
) -> None:
    kernel = lift("void kernel(int8_t A[4][4]) { fence(); }", machine)
    assert random_walk(kernel, machine, target.menu, frozenset(), 3, random.Random(0)) == []
