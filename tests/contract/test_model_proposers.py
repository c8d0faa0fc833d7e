"""Proposers that ask models keep the contract of all proposers."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright.core.budget import Budget
from tilewright.core.records import Brief, Candidate, RunRecord, Trial
from tilewright.core.roles import Proposer
from tilewright.proposers.llm.dispatch import ProcessTransport
from tilewright.proposers.llm.retry import Backoff
from tilewright.proposers.llm.setup import create_llm_proposer
from tilewright.proposers.mixed import Member, MixedProposer
from tilewright.storage.project import open_calls, open_project
from tilewright.testing.model_server import ModelServer
from tilewright.testing.proposer import (
    ProposerContract,
    ResponderContract,
    StreamingPlannerContract,
)
from tilewright.testing.toy import START, ToyProposer, ToyTarget, ToyTask, toy_outcome

SOURCE = f"kernel() {START}"


def answer(prompt: str, key: str) -> str:
    """A plan on an option that is offered, or the toy kernel with one digit lowered."""
    rng = random.Random(key)
    if "# Optimisations to choose from" in prompt:
        return f"OPTION: {rng.choice(re.findall(r'`(lower-[0-9]+)`', prompt))}\n\n{rng.random()}"
    return f"```\ntoy() toy 9 9 9 9 {rng.randint(0, 8)}\n```"


@pytest.fixture
def models(tmp_path: Path) -> Iterator[Proposer]:
    storage = open_project(tmp_path)
    storage.create_run(RunRecord("run", "toy", "toy", {}, {}, "2026-11-21"))
    storage.close()
    store = open_calls(tmp_path)
    transport = ProcessTransport(tmp_path / "calls", Backoff())
    with ModelServer(answer=answer) as server:
        made, _ = create_llm_proposer(
            [f"openai/a@{server.url}", f"openai/b@{server.url}"],
            transport=transport,
            store=store,
            run_id="run",
            budget=Budget(),
            prices={},
        )
        yield made
    transport.close()
    store.close()


class ToyWorld(ProposerContract):
    @pytest.fixture
    def brief(self) -> Brief:
        target = ToyTarget().brief()
        return Brief(ToyTask.workload, target, target.menu, 1, 15)

    @pytest.fixture
    def parent(self) -> Trial:
        return Trial(0, 0, Candidate(SOURCE), toy_outcome(SOURCE))


class TestModels(ToyWorld, StreamingPlannerContract, ResponderContract):
    @pytest.fixture
    def proposer(self, models: Proposer) -> Proposer:
        return models


class TestMixed(ToyWorld, StreamingPlannerContract, ResponderContract):
    @pytest.fixture
    def proposer(self, models: Proposer) -> Proposer:
        names = tuple(models._models)  # type: ignore[attr-defined]
        return MixedProposer([Member(ToyProposer(), ("toy",)), Member(models, names)])
