"""Stages in order, and what a cache key depends on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.core.errors import UndeclaredFailureError
from tilewright.core.records import (
    GENERAL_FAILURES,
    Artifact,
    Candidate,
    Check,
    EvaluationRequest,
    Failed,
    Measured,
    Outcome,
    Stage,
    Verdict,
)
from tilewright.core.roles import NOTHING_CHECKED
from tilewright.evaluation import pipeline
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


def test_a_kind_of_failure_that_the_target_does_not_declare_is_an_internal_error() -> None:
    evaluator = ScriptedTarget().open("any", {}).evaluator
    request = EvaluationRequest(Candidate("fail check out_of_tiles"))
    with pytest.raises(UndeclaredFailureError, match="'out_of_tiles' is not declared"):
        evaluate(evaluator, request, kinds=lambda: GENERAL_FAILURES)
    outcome = evaluate(evaluator, request, kinds=lambda: ("out_of_tiles",))
    assert isinstance(outcome, Failed)
    assert outcome.kind == "out_of_tiles"


def test_the_kinds_of_a_target_are_not_asked_for_a_general_failure() -> None:
    evaluator = ScriptedTarget().open("any", {}).evaluator
    request = EvaluationRequest(Candidate("fail check wrong_result"))
    outcome = evaluate(evaluator, request, kinds=lambda: pytest.fail("the brief was read"))
    assert isinstance(outcome, Failed)


def test_the_context_key_follows_all_that_decides_an_outcome() -> None:
    target = ScriptedTarget()
    task = target.open("any", {})
    base = context_key(task, {"compiler": "1"})
    assert context_key(target.open("any", {}), {"compiler": "1"}) == base
    assert context_key(task, {"compiler": "2"}) != base
    assert context_key(target.open("any", {"input_seed": 2}), {"compiler": "1"}) != base
    task.workload = replace(task.workload, operations=7)
    assert context_key(task, {"compiler": "1"}) != base


def test_outcomes_by_other_rules_have_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    task = ScriptedTarget().open("any", {})
    base = context_key(task, {})
    monkeypatch.setattr(pipeline, "RULES_VERSION", pipeline.RULES_VERSION + " and one more")
    assert context_key(task, {}) != base


class Recorder:
    """Checker and Runner that note what they are asked for, in order."""

    def __init__(self, latency: float, wrong: str = "") -> None:
        self.asked: list[str] = []
        self._latency, self._wrong = latency, wrong

    def check_first(self, artifact: Artifact) -> Verdict:
        self.asked.append("first")
        return Verdict((Check(1, "small"),))

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        self.asked.append("all" if not passed.checks else "others")
        if self._wrong:
            return Failed("check", "wrong_result", self._wrong)
        return Verdict((*passed.checks, Check(2, "shifted mean", "float32")))

    def measure(
        self, artifact: Artifact, verdict: Verdict, limit_latency: float | None
    ) -> Measured | Failed:
        self.asked.append("measure")
        if limit_latency is not None and self._latency >= limit_latency:
            return Failed("measure", "slower_than_limit", "too slow", bound=self._latency)
        return Measured(self._latency, "cycles", "simulated", 0.5, verdict)


def outcome_of(recorder: Recorder, limit: float | None) -> Outcome:
    builder = ScriptedTarget().open("any", {}).evaluator[0]
    return evaluate((builder, recorder, recorder), EvaluationRequest(Candidate("x"), limit))


def test_what_is_too_slow_is_compared_once_and_what_may_be_kept_everywhere() -> None:
    slow, fast = Recorder(10.0), Recorder(4.0)
    assert isinstance(outcome_of(slow, 5.0), Failed)
    assert slow.asked == ["first", "measure"]
    found = outcome_of(fast, 5.0)
    assert fast.asked == ["first", "measure", "others"]
    assert isinstance(found, Measured)
    assert [c.distribution for c in found.verdict.checks] == ["small", "shifted mean"]
    assert found.verdict.precision == "float32"


def test_without_a_limit_everything_is_compared_before_the_measurement() -> None:
    start = Recorder(4.0)
    assert isinstance(outcome_of(start, None), Measured)
    assert start.asked == ["all", "measure"]


def test_fast_and_wrong_on_a_later_distribution_is_wrong() -> None:
    found = outcome_of(Recorder(4.0, wrong="C differs"), 5.0)
    assert isinstance(found, Failed)
    assert (found.stage, found.log) == ("check", "C differs")


def test_what_a_compiler_quotes_is_plain_text() -> None:
    """A terminal that shows the log obeys nothing of it."""
    task = ScriptedTarget().open("any", {})
    recorder = Recorder(100.0, wrong="\x1b[31mred\x1b[0m, \ud800")
    outcome = evaluate((task.evaluator[0], recorder, recorder), EvaluationRequest(Candidate("a")))
    assert isinstance(outcome, Failed)
    assert outcome.log == "red, \N{REPLACEMENT CHARACTER}"
