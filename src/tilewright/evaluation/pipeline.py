"""One evaluation: build, check, measure. The first stage that fails is the outcome."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from tilewright.core.codec import to_json
from tilewright.core.errors import UndeclaredFailureError
from tilewright.core.records import (
    GENERAL_FAILURES,
    Artifact,
    Candidate,
    EvaluationRequest,
    Failed,
    Outcome,
    Stage,
    content_id,
)
from tilewright.core.roles import (
    Builder,
    Checker,
    ChecksFurther,
    FindsBrokenRules,
    NamesUnchecked,
    Runner,
    Sandboxed,
    Task,
)
from tilewright.core.text import plain_text

OnStage = Callable[[Stage], None]
"""Called when a stage begins."""

Kinds = Callable[[], Collection[str]]
"""Returns the kinds of failure that a target declares. It is called only for a failure that is not
of a general kind, because reading a target's brief takes a fifth of a worker's start.
"""

RULES_VERSION = "15"
"""Version of the rules by which kernels are judged. Increment it with every change that may give a
kernel another verdict or another latency. It is part of every cache key, so that outcomes under
older rules are not used.
"""


def context_key(task: Task, versions: Mapping[str, str]) -> str:
    """Hash of everything that determines an outcome, except the candidate's source and its limit.

    The path of a folder is not part of the hash.
    """
    is_folder = Path(task.workload.source).is_absolute()
    workload = replace(task.workload, source="") if is_folder else task.workload
    workload_text = json.dumps(to_json(workload), sort_keys=True)
    versions_text = json.dumps(dict(versions), sort_keys=True)
    return content_id(RULES_VERSION, workload_text, task.fingerprint, versions_text)


def evaluate(
    evaluator: tuple[Builder, Checker, Runner],
    request: EvaluationRequest,
    on_stage: OnStage = lambda stage: None,
    kinds: Kinds | None = None,
) -> Outcome:
    """Build the candidate, check it on private inputs and measure the same artifact.

    If the request has a limit, most comparisons are made after the measurement, because a candidate
    that is too slow needs none of them. The outcome names the sandbox, and its log contains no
    control characters. Raises `UndeclaredFailureError` if `kinds` is given and a failure is of
    neither a general kind nor one of these.
    """
    outcome = _evaluate(evaluator, request, on_stage)
    if isinstance(outcome, Failed):
        outcome = _readable(outcome, kinds)
    builder = evaluator[0]
    return replace(outcome, sandbox=builder.sandbox) if isinstance(builder, Sandboxed) else outcome


def soon_rejected(
    evaluator: tuple[Builder, Checker, Runner], candidate: Candidate, kinds: Kinds | None = None
) -> Failed | None:
    """The failure of a candidate's build or of its first comparison, or None. Raises
    `UndeclaredFailureError` like `evaluate`.
    """
    builder, checker, _ = evaluator
    built = builder.build(candidate)
    found = checker.check_first(built) if isinstance(built, Artifact) else built
    return _readable(found, kinds) if isinstance(found, Failed) else None


def problem(task: Task, candidate: Candidate, kinds: Kinds | None = None) -> Failed | None:
    """The failure of a candidate's build, or the rule that it breaks when it runs, if the task can
    find that out; None for neither. Raises `UndeclaredFailureError` like `evaluate`.
    """
    built = task.evaluator[0].build(candidate)
    if isinstance(built, Artifact):
        found = task.broken_rule(built) if isinstance(task, FindsBrokenRules) else None
    else:
        found = built
    return _readable(found, kinds) if found is not None else None


def _readable(failed: Failed, kinds: Kinds | None) -> Failed:
    """The failure without control characters in its log; `UndeclaredFailureError` if its kind is
    neither general nor among `kinds`.
    """
    failed = replace(failed, log=plain_text(failed.log))
    if kinds is None or failed.kind in GENERAL_FAILURES:
        return failed
    declared = kinds()
    if failed.kind not in declared:
        raise UndeclaredFailureError(
            f"failure kind {failed.kind!r} is not declared by the target's brief: add it to "
            f"its `failures`, or report one of {', '.join(sorted(declared))}; the failure said: "
            f"{failed.log}"
        )
    return failed


def _evaluate(
    evaluator: tuple[Builder, Checker, Runner], request: EvaluationRequest, on_stage: OnStage
) -> Outcome:
    builder, checker, runner = evaluator
    on_stage("build")
    artifact = builder.build(request.candidate)
    if isinstance(artifact, Failed):
        return artifact
    limited = request.limit_latency is not None
    on_stage("check")
    if request.comparisons:
        assert isinstance(checker, ChecksFurther), "the task has the role ComparesFurther"
        verdict = checker.check_further(artifact, request.comparisons)
    else:
        verdict = checker.check_first(artifact) if limited else checker.check(artifact)
    if isinstance(verdict, Failed):
        return verdict
    on_stage("measure")
    measured = runner.measure(artifact, verdict, request.limit_latency)
    if isinstance(measured, Failed):
        return measured
    if limited:  # the candidate is fast enough to be kept, so the other comparisons are made now
        on_stage("check")
        whole = checker.check(artifact, measured.verdict)
        if isinstance(whole, Failed):
            return whole
        measured = replace(measured, verdict=whole)
    left_out = checker.unchecked(artifact) if isinstance(checker, NamesUnchecked) else ()
    return replace(measured, warnings=(*measured.warnings, *left_out))
