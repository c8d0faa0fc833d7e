"""Floors refuse impossible cycles and no kernel that exists."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.core.records import Candidate, EvaluationRequest, Failed, Measured
from tilewright.core.roles import HasLatencyFloor
from tilewright.core.tasks import open_task
from tilewright.evaluation.pipeline import evaluate
from tilewright.evaluation.screening import below_floor
from tilewright.targets.gemmini.toolchain import find_gcc, find_zig

from .kernels import GOOD

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(
        find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler"
    ),
]
WORKLOADS = [
    "gemmini:gemm-256x256x256", "gemmini:gemm-64x64x64", "gemmini:gemm-1x1x1",
    "gemmini:gemm-33x5x70", "gemmini:conv-1x8x8x16x16-k3s1", "gemmini:gemm-1x512x1",
    "gemmini-fp32-4x4:gemm-32x32x32",
]  # fmt: skip


@pytest.mark.parametrize("name", WORKLOADS)
def test_no_kernel_there_is_lies_below(name: str) -> None:
    task = open_task(name, {"input_seed": 2}).task
    assert isinstance(task, HasLatencyFloor)
    for source in {task.start, *task.baselines.values()}:
        outcome = evaluate(task.evaluator, EvaluationRequest(Candidate(source)))
        assert isinstance(outcome, Measured), outcome
        assert below_floor(outcome, task.floor) == outcome


def test_the_best_utilisation_known_is_possible() -> None:
    """99.6 % of the array's peak was measured; the floor leaves room up to 100 % and a little."""
    task = open_task("gemmini:gemm-12544x64x256", {}).task
    assert isinstance(task, HasLatencyFloor)
    peak = task.workload.operations / 256
    counts = {"instructions": 0.3 * peak, "macs": float(task.workload.operations)}
    for utilization in (0.996, 1.0):
        cycles = peak / utilization
        kernel = _measured(cycles, counts)
        assert below_floor(kernel, task.floor) == kernel


@pytest.mark.parametrize(
    ("cycles", "counts", "bound"),
    [
        (15.0, {"instructions": 10.0, "macs": 0.0}, "the task's products"),
        (99.0, {"instructions": 100.0, "macs": 0.0}, "the core"),
        (99.0, {"instructions": 1.0, "macs": 25601.0}, "the array"),
    ],
)
def test_impossible_cycles_are_invalid(cycles: float, counts: dict[str, float], bound: str) -> None:
    task = open_task("gemmini:gemm-16x16x16", {}).task
    assert isinstance(task, HasLatencyFloor)
    failed = below_floor(_measured(cycles, counts), task.floor)
    assert isinstance(failed, Failed)
    assert failed.kind == "invalid"
    assert bound in failed.log


def test_outputs_have_to_be_written() -> None:
    task = open_task("gemmini-fp32-4x4:gemm-64x64x1", {}).task
    assert isinstance(task, HasLatencyFloor)
    kernel = _measured(600.0, {"instructions": 1.0, "macs": 0.0})
    failed = below_floor(kernel, task.floor)
    assert isinstance(failed, Failed)
    assert "writing the outputs" in failed.log
    assert below_floor(replace(kernel, latency=700.0), task.floor) != failed


def test_a_small_kernel_by_hand() -> None:
    task = open_task("gemmini:gemm-16x16x16", {}).task
    assert isinstance(task, HasLatencyFloor)
    outcome = evaluate(task.evaluator, EvaluationRequest(Candidate(GOOD)))
    assert isinstance(outcome, Measured)
    assert below_floor(outcome, task.floor) == outcome


def _measured(cycles: float, counts: dict[str, float]) -> Measured:
    task = open_task("gemmini:gemm-16x16x16", {}).task
    outcome = evaluate(task.evaluator, EvaluationRequest(Candidate(GOOD)))
    assert isinstance(outcome, Measured)
    return replace(outcome, latency=cycles, details={**outcome.details, **counts})
