"""The installed targets, and those of tests, keep the contract of targets and tasks."""

from __future__ import annotations

import inspect
import shutil
from pathlib import Path

import pytest

from tilewright.core.plugins import load_target, target_names
from tilewright.core.records import (
    GENERAL_FAILURES,
    Brief,
    Candidate,
    Failed,
    History,
    Trial,
)
from tilewright.core.roles import Target
from tilewright.proposers.llm.prompts.render import Prompts
from tilewright.testing.target import TargetContract

SMALL = {
    "gemmini": "gemm-64x64x64",
    "gemmini-fp32-4x4": "gemm-16x16x16",
    "host-c": "softmax-16x64",
    "amx-int8": "gemm-32x48x128",
    "amx-bf16": "gemm-32x48x128",
}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for this machine")
class TestInstalledTargets(TargetContract):
    @pytest.fixture(params=sorted(SMALL))
    def target(self, request: pytest.FixtureRequest) -> Target:
        return load_target(request.param)

    @pytest.fixture
    def spec(self, target: Target) -> str:
        return SMALL[target.name]


@pytest.mark.parametrize("name", [*sorted(SMALL), "trainium", "trainium2"])
def test_models_are_told_what_decides_between_plans(name: str) -> None:
    brief = load_target(name).brief()
    target = load_target(name)
    workload = target.open(SMALL.get(name, "rmsnorm-128x256"), {}).workload
    start = Trial(0, 0, Candidate("start"), Failed("check", "wrong_result", ""))
    shown = Prompts().plan(Brief(workload, brief, brief.menu, 1, 1), start, History([start]))
    assert brief.costs.strip()
    assert brief.costs.strip() in "\n".join(message.text for message in shown)
    assert "{#" not in brief.costs


def test_every_installed_target_is_held_to_it() -> None:
    assert {load_target(name).name for name in SMALL} >= set(target_names()) - OTHERS


def test_targets_declare_the_kinds_of_failure_that_their_code_names() -> None:
    briefs = {name: load_target(name).brief() for name in target_names()}
    special = set().union(*(brief.failures for brief in briefs.values()))
    assert not special & GENERAL_FAILURES
    for name, brief in briefs.items():
        folder = Path(str(inspect.getsourcefile(type(load_target(name))))).parent
        text = "".join(path.read_text() for path in sorted(folder.rglob("*.[pch]*[yp]")))
        named = {kind for kind in special if f'"{kind}"' in text}
        assert named <= set(brief.failures), name


OTHERS = {"trainium", "trainium2", "cuda", "kernelbench", "triton"}
"""Targets with tests of this contract of their own."""
