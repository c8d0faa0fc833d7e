"""Every baseline of every registered workload, checked and measured as candidates are."""

from __future__ import annotations

import pytest

from tilewright.core.config import Settings
from tilewright.core.records import Measured
from tilewright.core.tasks import open_task
from tilewright.run import create_executor, evaluate_baselines
from tilewright.targets.gemmini.toolchain import find_gcc, find_zig
from tilewright.targets.gemmini.workloads import REGISTERED

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(
        find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler"
    ),
]

SMALL = ("gemm-256x256x256", "conv-4x14x14x128x128-k3s1")


def utilizations(name: str) -> dict[str, float]:
    settings = Settings(seed=11, simulation_timeout_s=600.0)
    opened = open_task(f"gemmini:{name}", settings.recorded())
    executor = create_executor(opened, settings, 1, None)
    try:
        kernels = evaluate_baselines(opened, executor)
    finally:
        executor.close()
    found = {}
    for kernel in kernels:
        assert isinstance(kernel.outcome, Measured), (kernel.name, kernel.outcome)
        assert len(kernel.outcome.verdict.checks) == 4
        assert kernel.outcome.warnings == ()
        found[kernel.name] = kernel.outcome.utilization
    return found


def check(name: str) -> None:
    reached = utilizations(name)
    assert list(reached) == ["naive", "library", "tuned", "fsm"]
    assert reached["naive"] < reached["library"] < min(reached["tuned"], reached["fsm"])


@pytest.mark.parametrize("name", SMALL)
def test_all_baselines_are_correct(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REGISTERED if name not in SMALL])
def test_all_baselines_of_large_workloads_are_correct(name: str) -> None:
    check(name)
