"""Every baseline of every registered workload, checked and measured as candidates are."""

from __future__ import annotations

import pytest

from tilewright.core.config import Settings
from tilewright.core.records import Artifact, Candidate, Measured, Verdict
from tilewright.core.tasks import open_task
from tilewright.executors import create_executor, evaluate_baselines
from tilewright.targets.gemmini import create_target
from tilewright.targets.gemmini.baselines import convolution_baselines
from tilewright.targets.gemmini.convolution import parse_convolution
from tilewright.targets.gemmini.toolchain import find_gcc, find_zig
from tilewright.targets.gemmini.workloads import REGISTERED

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(
        find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler"
    ),
]

SMALL = ("gemm-256x256x256", "conv-4x14x14x128x128-k3s1")
SETTINGS = Settings(seed=11, simulation_timeout_s=600.0)


def utilizations(name: str) -> dict[str, float]:
    opened = open_task(f"gemmini:{name}", SETTINGS.recorded())
    executor = create_executor(opened, SETTINGS.evaluated_with(4), 1, None)
    try:
        kernels = evaluate_baselines(opened, executor)
    finally:
        executor.close()
    found = {}
    for kernel in kernels:
        assert isinstance(kernel.outcome, Measured), (kernel.name, kernel.outcome)
        # Each of five distributions, and the timed run.
        assert len(kernel.outcome.verdict.checks) == 6
        assert kernel.outcome.warnings == ()
        found[kernel.name] = kernel.outcome.utilization
    return found


def utilizations_with_two_inputs(name: str) -> dict[str, float]:
    """The same for kernels that are checked on one distribution and in the timed run only."""
    task = open_task(f"gemmini:{name}", SETTINGS.recorded()).task
    builder, checker, runner = task.evaluator
    found = {}
    for kernel, source in task.baselines.items():
        built = builder.build(Candidate(source))
        assert isinstance(built, Artifact), (kernel, built)
        passed = checker.check_first(built)
        assert isinstance(passed, Verdict), (kernel, passed)
        measured = runner.measure(built, passed, None)
        assert isinstance(measured, Measured), (kernel, measured)
        assert len(measured.verdict.checks) == 2
        assert measured.warnings == ()
        found[kernel] = measured.utilization
    return found


# Ragged in every extent; several panels of filters; tiles that end inside a row of pixels.
RAGGED = ("conv-2x5x7x19x33-k2s3p2", "conv-1x3x90x5x16-k3s1", "conv-2x9x9x40x130-k1s1")


@pytest.mark.parametrize("name", RAGGED)
def test_ragged_baselines_are_correct(name: str) -> None:
    assert set(utilizations(name)) == {"naive", "library", "tuned", "fsm"}


@pytest.mark.parametrize(
    ("size", "stride", "given"), [(3, 89, True), (3, 90, False), (1, 255, False)]
)
def test_the_unroller_is_left_out_where_it_cannot_hold_the_sizes(
    size: int, stride: int, given: bool
) -> None:
    instance = create_target().instance
    conv = parse_convolution(f"conv-1x400x400x8x16-k{size}s{stride}p0", instance)
    assert ("fsm" in convolution_baselines(conv, instance)) == given


def require_order(reached: dict[str, float]) -> None:
    assert list(reached) == ["naive", "library", "tuned", "fsm"]
    assert reached["naive"] < reached["library"] < min(reached["tuned"], reached["fsm"])


@pytest.mark.parametrize("name", SMALL)
def test_all_baselines_are_correct(name: str) -> None:
    require_order(utilizations(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REGISTERED if name not in SMALL])
def test_all_baselines_of_large_workloads_are_correct(
    name: str, request: pytest.FixtureRequest
) -> None:
    """All distributions are compared at the small sizes, and here under --thorough."""
    every = request.config.getoption("--thorough")
    require_order(utilizations(name) if every else utilizations_with_two_inputs(name))
