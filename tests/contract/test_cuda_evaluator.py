"""Builder and Checker of `cuda` keep their contracts; nothing is timed without a GPU."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

import pytest

from tilewright.core.errors import NotTimedError
from tilewright.core.roles import Target, Task
from tilewright.targets.cuda import create_target
from tilewright.targets.cuda.models import create_target as create_kernelbench
from tilewright.testing.evaluator import CheckerContract, Evaluator, OpenTask, built
from tilewright.testing.target import TargetContract

pytestmark = pytest.mark.skipif(
    shutil.which("nvcc") is None or shutil.which("g++") is None,
    reason="needs nvcc and g++ on PATH",
)
SPEC = "rowsum-8x100"


class TestCudaTarget(TargetContract):
    @pytest.fixture
    def target(self) -> Target:
        return create_target()

    @pytest.fixture
    def spec(self) -> str:
        return SPEC


class TestKernelBenchTarget(TestCudaTarget):
    @pytest.fixture
    def target(self) -> Target:
        return create_kernelbench()


class TestCudaEvaluator(CheckerContract):
    @pytest.fixture
    def open_task(self) -> OpenTask:
        def open_task(settings: Mapping[str, object]) -> Task:
            return create_target().open(SPEC, settings)

        return open_task

    @pytest.fixture
    def wrong(self) -> str:
        start = create_target().open(SPEC, {}).start
        assert "Y[blockIdx.x] = parts[0]" in start
        return start.replace("Y[blockIdx.x] = parts[0]", "Y[blockIdx.x] = parts[0] + 1.0f")

    def test_what_is_known_of_a_right_kernel_is_told_and_nothing_is_ranked(
        self, task: Task, evaluator: Evaluator
    ) -> None:
        builder, checker, runner = evaluator
        artifact = built(builder, task.start)
        verdict = checker.check(artifact)
        with pytest.raises(NotTimedError, match="registers") as told:
            runner.measure(artifact, verdict, None)  # type: ignore[arg-type]
        for words in ("sm_90", "occupancy", "no NVIDIA GPU", "cannot be timed"):
            assert words in str(told.value)
