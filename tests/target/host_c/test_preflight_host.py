"""A kernel that behaves until its checks are over is noticed by what is timed."""

from __future__ import annotations

import shutil

import pytest

from tilewright.core.records import (
    Artifact,
    Candidate,
    EvaluationRequest,
    Failed,
    Measured,
    Verdict,
)
from tilewright.core.tasks import open_task
from tilewright.evaluation.pipeline import evaluate
from tilewright.native.conditions import examination

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")

NAME = "is correct until its checks have ended"


def test_it_passes_all_checks_and_fails_when_it_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check refuses it, too, because it counts its calls; here this rule is left out."""
    monkeypatch.setattr(examination, "_kept", lambda sites, sequences: ())
    task = open_task("host-c:softmax-16x64", {"input_seed": 3}).task
    builder, checker, runner = task.evaluator
    source = task.hostile_kernels()[NAME]  # type: ignore[attr-defined]
    built = builder.build(Candidate(source))
    assert isinstance(built, Artifact), built
    verdict = checker.check(built)
    assert isinstance(verdict, Verdict), verdict
    measured = runner.measure(built, verdict, None)
    assert isinstance(measured, Failed)
    assert (measured.stage, measured.kind) == ("measure", "wrong_result")


def test_a_start_is_compared_as_often_as_requested() -> None:
    """And always on every distribution."""
    task = open_task("host-c:softmax-16x64", {"input_seed": 3}).task
    usual = len(task.check_cases()) - 1  # type: ignore[attr-defined]
    for comparisons in (1, usual + 3):
        request = EvaluationRequest(Candidate(task.start), comparisons=comparisons)
        outcome = evaluate(task.evaluator, request)
        assert isinstance(outcome, Measured), outcome
        checks = outcome.verdict.checks[:-1]  # without the timed one
        assert len(checks) == len({check.seed for check in checks}) == max(usual, comparisons)


def test_it_is_tried_only_where_many_calls_are_timed() -> None:
    slow = open_task("host-c:gemm-256x256x256", {"input_seed": 3}).task
    assert NAME not in slow.hostile_kernels()  # type: ignore[attr-defined]
    tiles = open_task("amx-int8:gemm-32x48x128", {"input_seed": 3})
    found = tiles.task.hostile_kernels()  # type: ignore[attr-defined]
    on_hardware = next(usable for name, usable, _ in tiles.target.doctor() if name == "tiles")
    assert (NAME in found) == bool(on_hardware)
