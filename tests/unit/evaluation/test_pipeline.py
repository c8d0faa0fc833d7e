"""Stages in order, and what a cache key depends on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.core.records import Candidate, EvaluationRequest, Failed, Measured, Stage
from tilewright.evaluation.pipeline import context_key, evaluate
from tilewright.testing.scripted import ScriptedTarget


@pytest.mark.parametrize(
    ("source", "reached"),
    [
        ("latency 5", ["build", "check", "measure"]),
        ("fail measure timeout", ["build", "check", "measure"]),
        ("fail check wrong_result", ["build", "check"]),
        ("fail build compile_error", ["build"]),
    ],
)
def test_the_first_stage_that_fails_is_the_outcome(source: str, reached: list[Stage]) -> None:
    stages: list[Stage] = []
    task = ScriptedTarget().open("any", {})
    outcome = evaluate(task.evaluator, EvaluationRequest(Candidate(source)), stages.append)
    assert stages == reached
    if isinstance(outcome, Failed):
        assert outcome.stage == reached[-1]
    else:
        assert isinstance(outcome, Measured)
        assert outcome.latency == 5


def test_the_context_key_follows_all_that_decides_an_outcome() -> None:
    target = ScriptedTarget()
    task = target.open("any", {})
    base = context_key(task, {"compiler": "1"})
    assert context_key(target.open("any", {}), {"compiler": "1"}) == base
    assert context_key(task, {"compiler": "2"}) != base
    assert context_key(target.open("any", {"input_seed": 2}), {"compiler": "1"}) != base
    task.workload = replace(task.workload, operations=7)
    assert context_key(task, {"compiler": "1"}) != base
