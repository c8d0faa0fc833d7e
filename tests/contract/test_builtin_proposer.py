"""The built-in rewriter keeps the contract of proposers, on Gemmini's naive kernels."""

from __future__ import annotations

import pytest

from tilewright.core.plugins import load_proposer
from tilewright.core.records import Brief, Candidate, Measured, Trial, Verdict
from tilewright.core.roles import Proposer, Task
from tilewright.targets.gemmini import create_target
from tilewright.testing.proposer import FindsUnsupportedCodeContract, StreamingPlannerContract


class TestBuiltinProposer(FindsUnsupportedCodeContract, StreamingPlannerContract):
    @pytest.fixture
    def proposer(self) -> Proposer:
        return load_proposer("builtin")

    @pytest.fixture(params=["gemm-32x48x32", "gemm-50x24x40"])
    def task(self, request: pytest.FixtureRequest) -> Task:
        return create_target().open(request.param, {})

    @pytest.fixture
    def brief(self, task: Task) -> Brief:
        target = create_target().brief()
        return Brief(task.workload, target, target.menu, iteration=1, iterations=15)

    @pytest.fixture
    def parent(self, task: Task) -> Trial:
        breakdown = {"array_busy": 400.0, "dma_wait": 500.0, "cpu": 100.0}
        outcome = Measured(1000.0, "cycles", "simulated", 0.4, Verdict(()), breakdown)
        return Trial(0, 0, Candidate(task.start), outcome)
