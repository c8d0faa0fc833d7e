"""From naive kernels to blocks of accumulators, by counts of instructions instead of a clock."""

from __future__ import annotations

import platform
import shutil
from dataclasses import replace

import pytest

from tilewright.core.plugins import load_proposer
from tilewright.core.records import Brief, Candidate, Failed, History, TargetBrief, Trial
from tilewright.core.roles import Task
from tilewright.proposers.loops.estimate import estimate
from tilewright.proposers.loops.reading import read_kernel
from tilewright.targets.amx import create_bf16_target, create_int8_target
from tilewright.targets.amx.elements import BF16, INT8, Element
from tilewright.targets.amx.support import missing_feature

pytestmark = [
    pytest.mark.skipif(
        shutil.which("gcc") is None or platform.machine() != "x86_64",
        reason="no C compiler for x86-64",
    ),
    pytest.mark.skipif(missing_feature(INT8) is None, reason="this CPU has tiles: nothing traps"),
]
TARGETS = {INT8: create_int8_target, BF16: create_bf16_target}
WITH_COPIES = 1.6
"""Loads for each product at most, with those that copy operands into whole tiles once."""


def planned(task: Task, target: TargetBrief, start: str, count: int, seed: int) -> list[Candidate]:
    """What the built-in proposer makes of a kernel, in its own order."""
    trial = Trial(0, 0, Candidate(start), Failed("measure", "timeout", "not timed here"))
    history, brief = History([trial]), Brief(task.workload, target, target.menu, 1, 9)
    proposer = load_proposer("builtin")
    return [
        candidate
        for plan in proposer.plan(brief, trial, history, count, seed)
        for candidate in proposer.implement(brief, trial, plan, 1, seed)
    ]


def caches(brief: TargetBrief) -> TargetBrief:
    """With the caches of a CPU that has tiles, whatever the one at hand."""
    return replace(brief, limits={**brief.limits, "l1_bytes": 48 << 10, "l2_bytes": 2 << 20})


@pytest.mark.parametrize(
    ("element", "name"),
    [
        (INT8, "gemm-128x128x128-packed"),
        (BF16, "gemm-96x64x64-packed"),
        (INT8, "gemm-128x128x128"),
        (BF16, "gemm-128x64x64"),
        (INT8, "conv-1x4x28x64x64-k3s1"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_the_first_plan_shares_every_tile_that_is_loaded(
    trapped, element: Element, name: str
) -> None:  # type: ignore[no-untyped-def]
    """Two by two accumulators: four loads for four products, where the naive kernel has eight."""
    target = TARGETS[element]()
    task = target.open(name, {})
    first = planned(task, caches(target.brief()), task.start, 1, seed=1)[0]
    right, ran = trapped(first.source, name, element)
    assert right
    most = 1 if name.endswith(("packed", "k3s1")) else WITH_COPIES
    assert ran["load"] <= most * ran["product"], first.source
    assert ran["loadconfig"] == 1
    outputs = ran["store"] if most == 1 else ran["zero"]
    assert outputs == ran["zero"]


def test_the_first_plan_is_the_best_of_an_iteration_by_counted_work(
    trapped,
) -> None:  # type: ignore[no-untyped-def]
    """Cycles of the multiplier and of the ports that load and store, one after the other."""
    name, target = "gemm-128x128x256-packed", create_int8_target()
    brief, task = caches(target.brief()), target.open(name, {})

    def cycles(source: str) -> float:
        right, ran = trapped(source, name, INT8)
        assert right, source
        return 16 * ran["product"] + 8 * ran["load"] + 16 * ran["store"]

    costs = {task.start: cycles(task.start)}
    for candidate in planned(task, brief, task.start, 4, seed=1):
        costs[candidate.source] = cycles(candidate.source)

    def estimated(source: str) -> float:
        return estimate(read_kernel(source, brief, task.workload), brief) or 0.0

    shortest = min(costs, key=estimated)
    assert shortest == list(costs)[1]
    assert costs[shortest] == min(costs.values()) < 0.85 * costs[task.start]
