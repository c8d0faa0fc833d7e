"""Gemmini's Builder, Checker and Runner keep their contracts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tilewright.core.roles import Task
from tilewright.targets.gemmini import create_target
from tilewright.targets.gemmini.toolchain import find_gcc, find_zig
from tilewright.testing.evaluator import EvaluatorContract, OpenTask


@pytest.mark.toolchain
@pytest.mark.skipif(find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler")
class TestGemminiEvaluator(EvaluatorContract):
    @pytest.fixture
    def open_task(self) -> OpenTask:
        def open_task(settings: Mapping[str, object]) -> Task:
            return create_target().open("gemm-40x72x24", settings)

        return open_task

    @pytest.fixture
    def wrong(self) -> str:
        return (
            create_target()
            .open("gemm-40x72x24", {})
            .start.replace("NO_ACTIVATION, 1, 0, 0", "NO_ACTIVATION, 1, 0, 1")
        )
