"""One evaluation: build, check, measure. The first stage that fails is the outcome."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

from tilewright.core.codec import to_json
from tilewright.core.records import EvaluationRequest, Failed, Outcome, Stage, content_id
from tilewright.core.roles import Builder, Checker, Runner, Sandboxed, Task

OnStage = Callable[[Stage], None]
"""Called when a stage begins."""


def context_key(task: Task, versions: Mapping[str, str]) -> str:
    """Content hash of all that decides an outcome, except the candidate's source and limit."""
    workload = json.dumps(to_json(task.workload), sort_keys=True)
    return content_id(workload, task.fingerprint, json.dumps(dict(versions), sort_keys=True))


def evaluate(
    evaluator: tuple[Builder, Checker, Runner],
    request: EvaluationRequest,
    on_stage: OnStage = lambda stage: None,
) -> Outcome:
    """Build the candidate, check it on private inputs and measure the same artifact.

    The outcome names what contained it.
    """
    outcome = _evaluate(evaluator, request, on_stage)
    builder = evaluator[0]
    return replace(outcome, sandbox=builder.sandbox) if isinstance(builder, Sandboxed) else outcome


def _evaluate(
    evaluator: tuple[Builder, Checker, Runner], request: EvaluationRequest, on_stage: OnStage
) -> Outcome:
    builder, checker, runner = evaluator
    on_stage("build")
    artifact = builder.build(request.candidate)
    if isinstance(artifact, Failed):
        return artifact
    on_stage("check")
    verdict = checker.check(artifact)
    if isinstance(verdict, Failed):
        return verdict
    on_stage("measure")
    return runner.measure(artifact, verdict, request.limit_latency)
