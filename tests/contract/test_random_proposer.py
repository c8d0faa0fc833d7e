"""The proposer that draws steps at random keeps the contract on commands, loops and NKI."""

from __future__ import annotations

import pytest

from tilewright.core.plugins import load_proposer
from tilewright.core.records import Brief, Candidate, History, Measured, Trial, Verdict
from tilewright.core.roles import Proposer, Target, Task
from tilewright.targets.gemmini import create_target as gemmini
from tilewright.targets.host_c import create_target as host_c
from tilewright.targets.trainium import create_target as trainium
from tilewright.testing.proposer import FindsUnsupportedCodeContract

KERNELS = [(gemmini, "gemm-32x48x32"), (host_c, "softmax-16x100"), (trainium, "gemm-128x512x128")]


class TestRandomProposer(FindsUnsupportedCodeContract):
    @pytest.fixture
    def proposer(self) -> Proposer:
        return load_proposer("random")

    @pytest.fixture(params=KERNELS, ids=["commands", "loops", "nki"])
    def opened(self, request: pytest.FixtureRequest) -> tuple[Target, Task]:
        make, name = request.param
        target = make()
        return target, target.open(name, {})

    @pytest.fixture
    def brief(self, opened: tuple[Target, Task]) -> Brief:
        target = opened[0].brief()
        return Brief(opened[1].workload, target, target.menu, iteration=1, iterations=15)

    @pytest.fixture
    def parent(self, opened: tuple[Target, Task]) -> Trial:
        outcome = Measured(1000.0, "ns", "measured", 0.4, Verdict(()))
        return Trial(0, 0, Candidate(opened[1].start), outcome)

    def test_its_candidates_carry_its_name_and_other_seeds_draw_others(
        self, proposer: Proposer, brief: Brief, parent: Trial
    ) -> None:
        history = History([parent])
        first, other = (proposer.plan(brief, parent, history, 4, seed) for seed in (1, 2))
        assert {p.parameters["steps"] for p in first} != {p.parameters["steps"] for p in other}
        made = [c for p in first for c in proposer.implement(brief, parent, p, 2, 1)]
        assert {candidate.proposer for candidate in made} == {"random"}

    def test_what_cannot_be_read_gives_no_plan(
        self, proposer: Proposer, brief: Brief, parent: Trial
    ) -> None:
        unread = Trial(0, 0, Candidate("not a kernel {"), parent.outcome)
        assert proposer.plan(brief, unread, History([unread]), 4, 1) == []
