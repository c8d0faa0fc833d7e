"""The built-in proposer keeps its contract on plain C kernels too."""

from __future__ import annotations

import shutil

import pytest

from tilewright.core.plugins import load_proposer
from tilewright.core.records import Brief, Candidate, History, Measured, Trial, Verdict
from tilewright.core.roles import Proposer, Task
from tilewright.proposers.loops.planning.by_hand import carried_out
from tilewright.targets.host_c import create_target
from tilewright.targets.host_c.instance import Instance
from tilewright.targets.host_c.target import HostTarget
from tilewright.testing.proposer import FindsUnsupportedCodeContract


class TestBuiltinOnLoops(FindsUnsupportedCodeContract):
    @pytest.fixture
    def proposer(self) -> Proposer:
        return load_proposer("builtin")

    @pytest.fixture(
        params=["softmax-16x100", "layernorm-16x96", "attention-32x64", "gemm-32x40x24"]
    )
    def task(self, request: pytest.FixtureRequest) -> Task:
        return create_target().open(request.param, {})

    @pytest.fixture
    def brief(self, task: Task) -> Brief:
        target = create_target().brief()
        return Brief(task.workload, target, target.menu, iteration=1, iterations=15)

    @pytest.fixture
    def parent(self, task: Task) -> Trial:
        outcome = Measured(1000.0, "ns", "measured", 0.4, Verdict(()))
        return Trial(0, 0, Candidate(task.start), outcome)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for this machine")
class TestBuiltinOnThreads(TestBuiltinOnLoops):
    """The same where two threads are declared, for a kernel whose loop was shared before."""

    @pytest.fixture(params=["softmax-16x100", "attention-32x64"])
    def task(self, request: pytest.FixtureRequest) -> Task:
        return HostTarget(Instance("pair", 2)).open(request.param, {})

    @pytest.fixture
    def brief(self, task: Task) -> Brief:
        target = HostTarget(Instance("pair", 2)).brief()
        return Brief(task.workload, target, target.menu, iteration=2, iterations=15)

    @pytest.fixture
    def parent(self, task: Task) -> Trial:
        target = HostTarget(Instance("pair", 2)).brief()
        shared, _ = carried_out(task.start, target, task.workload, "share 0 2")
        outcome = Measured(1000.0, "ns", "measured", 0.4, Verdict(()))
        return Trial(1, 1, Candidate(shared, Candidate(task.start).id), outcome)


@pytest.mark.slow
def test_kernels_that_compilers_take_long_over_are_not_proposed() -> None:
    """All wait for the slowest candidate: a convolution unrolled in every loop took 14 s."""
    task, target = create_target().open("conv-1x28x28x64x64-k3s1", {}), create_target().brief()
    brief = Brief(task.workload, target, target.menu, iteration=1, iterations=15)
    outcome = Measured(1000.0, "ns", "measured", 0.4, Verdict(()))
    parent, proposer = Trial(0, 0, Candidate(task.start), outcome), load_proposer("builtin")
    made = [
        candidate.source
        for seed in range(3)
        for plan in proposer.plan(brief, parent, History([parent]), 6, seed)
        for candidate in proposer.implement(brief, parent, plan, 2, seed)
    ]
    assert len(made) > 20
    assert 100 < max(source.count(";") for source in made) < 1000
