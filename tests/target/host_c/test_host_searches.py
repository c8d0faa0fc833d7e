"""Whole searches on this machine: without a key, and with a model over HTTP."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tilewright.core.config import Settings
from tilewright.core.plugins import load_target
from tilewright.core.records import Measured
from tilewright.core.run_notes import Rechecked
from tilewright.run import Summary, optimize
from tilewright.storage.project import open_project
from tilewright.targets.host_c import create_target
from tilewright.testing.model_server import ModelServer
from tilewright.testing.rewriter_model import RewriterModel

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="no C compiler for this machine"
)
TASK = "host-c:softmax-16x256"


def search(project: Path, *proposers: str) -> Summary:
    settings = Settings(
        proposers=proposers, beam=1, plans=2, implementations=1, iterations=2, dropout=0.0
    )
    return optimize(TASK, settings, project=project, workers=1)


def test_a_search_without_a_key_is_faster_and_its_winner_measured_anew(tmp_path: Path) -> None:
    summary = search(tmp_path, "builtin")
    assert (summary.unit, summary.quantity) == ("ns", "measured")
    assert summary.left_alone == ()
    storage = open_project(tmp_path)
    best = storage.history(summary.run_id).best
    notes = storage.kept(summary.run_id, Rechecked)
    storage.close()
    assert best is not None
    if best.index == 0:
        pytest.skip("the machine is so busy that no winner was confirmed")
    assert isinstance(best.outcome, Measured)
    assert best.outcome.noise > 0
    confirmed = [n for n in notes if n.candidate == best.candidate.id and n.confirmed]
    assert "Innermost loops as compiled" in best.outcome.feedback
    assert confirmed, "the number that is reported is not the one that made it the winner"
    assert best.candidate.plan is not None
    # Which of the first plans wins depends on the machine; that it rewrites the kernel does not.
    assert best.candidate.plan.parameters["steps"]


def test_a_model_is_told_of_the_machine_and_its_kernels_are_measured(tmp_path: Path) -> None:
    target = load_target("host-c")
    model = RewriterModel(target.brief(), create_target().open("softmax-16x256", {}).workload)
    with ModelServer(answer=model.answer) as server:
        name = f"openai/scripted@{server.url}?price=0:0"
        summary = search(tmp_path, name)
        prompts = str([body["messages"] for body in server.requests])
    for told in (
        "GFLOP/s",
        "one core of this machine",
        "vectorise",
        "measured peak",
        "loops as compiled",
    ):
        assert told in prompts
    storage = open_project(tmp_path)
    trials = list(storage.history(summary.run_id))
    storage.close()
    assert any(t.candidate.proposer == name and t.latency is not None for t in trials)
