"""Tests of a task before a run (preflight), and new evaluations of a result after it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event

from tilewright.core.config import Settings
from tilewright.core.errors import (
    InputError,
    InternalError,
    NotTimedError,
    TilewrightError,
    WorkloadError,
)
from tilewright.core.records import (
    AttackResult,
    Candidate,
    EvaluationRequest,
    Failed,
    Measured,
    Outcome,
    Stage,
    content_id,
)
from tilewright.core.roles import Attackable, Checkpoint, ComparesFurther
from tilewright.core.tasks import OpenTask, open_task
from tilewright.evaluation.disk import require_room
from tilewright.evaluation.local import LocalExecutor
from tilewright.evaluation.pipeline import RULES_VERSION
from tilewright.evaluation.preflight.examine import VERSION, refusal
from tilewright.evaluation.preflight.session import preflight as attack
from tilewright.parts.inputs import DISTRIBUTIONS
from tilewright.parts.languages.c import without_comments

__all__ = [
    "as_winner",
    "attack",
    "check_kernel",
    "check_reference",
    "fresh_seed",
    "preflight",
    "recheck",
    "require_preflight",
    "start_error",
]

RECHECK_COMPARISONS = 2 * len(DISTRIBUTIONS)
"""Number of comparisons with the reference when a result is evaluated again, which is two for each
distribution.
"""


def fresh_seed() -> int:
    """A new seed of private inputs from the operating system, which no proposer receives."""
    return secrets.randbits(62)


FRESH_SESSIONS = 3
"""Number of sessions in which a winner that is measured on hardware must be faster than the
starting kernel.
"""


def recheck(
    task: str,
    settings: Mapping[str, object],
    candidate: Candidate,
    limit_latency: float | None = None,
    checkpoint: Checkpoint | None = None,
) -> Outcome:
    """Rebuild a candidate in a clean process and evaluate it on new private inputs.

    `settings` are those recorded with a run. No cache is used. A simulated kernel is evaluated
    twice and must have the same latency both times. An exception from `checkpoint` ends the
    evaluation.
    """
    request = [EvaluationRequest(candidate, limit_latency)]
    with LocalExecutor(task, _fresh(settings), workers=1) as executor:
        outcome = executor.evaluate(request, checkpoint=checkpoint)[0]
        if not isinstance(outcome, Measured) or outcome.quantity != "simulated":
            return outcome
        again = executor.evaluate(request, checkpoint=checkpoint)[0]
    return outcome if again == outcome else _not_repeatable(outcome, again)


def _fresh(settings: Mapping[str, object]) -> dict[str, object]:
    """The settings with a new seed of inputs, and with all distributions."""
    checks = max(RECHECK_COMPARISONS, int(str(settings.get("checks", 0))))
    return {**settings, "input_seed": fresh_seed(), "checks": checks}


def as_winner(settings: Mapping[str, object]) -> Mapping[str, object]:
    """The settings with which `recheck` evaluates a kernel as strictly as a winner."""
    return {**settings, "sessions": FRESH_SESSIONS}


def _not_repeatable(first: Measured, second: Outcome) -> Failed:
    shown = f"{second.latency:g}" if isinstance(second, Measured) else second.kind_in_words
    log = f"the same binary gave {first.latency:g} {first.unit}, then {shown}, on the same inputs."
    return Failed("measure", "non_deterministic", log, sandbox=first.sandbox)


def preflight(task: str, settings: Settings) -> tuple[str, list[AttackResult]]:
    """The task's full name, and the verdict of its correctness check on each deliberately wrong
    kernel.

    Raises `WorkloadError` if the starting kernel and the reference disagree, because one of them is
    then wrong.
    """
    require_room()
    opened = open_task(task, settings.recorded())
    if not isinstance(opened.task, Attackable):
        raise InputError(
            f"tasks of target {opened.target.name} cannot be examined: the target gives no access "
            "to its comparisons (the role Attackable)."
        )
    results = attack(opened.name, settings.evaluated_with(fresh_seed()))
    if refusal(opened.name, results) is not None:
        return opened.name, results
    with suppress(NotTimedError):  # the kernel is correct, which is sufficient here
        check_kernel(opened, settings)
    return opened.name, results


def check_kernel(
    opened: OpenTask, settings: Settings, checkpoint: Checkpoint | None = None
) -> Measured:
    """The measured starting kernel; `WorkloadError` unless it passes all comparisons that a winner
    must pass.

    Otherwise, a search could end without a winner, because winners are compared on more inputs than
    candidates. Raises `NotTimedError` if the kernel is correct, but this machine cannot time it.
    """
    fresh = _fresh(settings.recorded())
    with LocalExecutor(opened.name, fresh, workers=1) as executor:
        request = [EvaluationRequest(Candidate(opened.task.start))]
        start = executor.evaluate(request, checkpoint=checkpoint)[0]
    if not isinstance(start, Measured):
        raise start_error(opened.name, start, opened.task.start)
    return start


def check_reference(
    opened: OpenTask, settings: Settings, checkpoint: Checkpoint | None = None
) -> None:
    """Raise `WorkloadError` if the reference is not deterministic, or if the check accepts a wrong
    kernel.
    """
    if isinstance(opened.task, Attackable):
        results = attack(opened.name, settings.evaluated_with(fresh_seed()), checkpoint)
        problem = refusal(opened.name, results)
        if problem is not None:
            raise WorkloadError(
                f"{problem} `tilewright preflight {opened.name}` lists all wrong "
                "kernels that were tried."
            )


def require_preflight(
    opened: OpenTask,
    settings: Settings,
    project: Path,
    versions: Mapping[str, str],
    checkpoint: Checkpoint | None = None,
) -> None:
    """Test a task with wrong kernels, once per project, and its starting kernel.

    If the task has the role `ComparesFurther`, its starting kernel is not tested here, because each
    search compares it as strictly as a winner when it measures it.

    `WorkloadError` if its check accepts a wrong kernel, or if its starting kernel is wrong for
    inputs of any distribution. An exception from `checkpoint` ends the test. `checkpoint` may be
    called from two threads at the same time.
    """
    from tilewright.storage.project import passed_preflight, remember_preflight

    if not isinstance(opened.task, Attackable):
        return
    rules = (VERSION, RULES_VERSION)
    key = content_id(opened.name, *rules, repr(sorted(versions.items())), repr(settings.checks))
    if passed_preflight(project, key):
        return
    if isinstance(opened.task, ComparesFurther):
        check_reference(opened, settings, checkpoint)
    else:
        _examine_both(opened, settings, checkpoint)
    remember_preflight(project, key)


class _NotNeededError(Exception):
    """Ends the evaluation of the starting kernel if the task is refused for another reason."""


def _examine_both(opened: OpenTask, settings: Settings, checkpoint: Checkpoint | None) -> None:
    """Test the check and the starting kernel at the same time, each with a process of its own.

    A search cannot begin before both are done. If both refuse the task, the check's reason is
    raised, because a wrong reference also makes the starting kernel look wrong.
    """
    refused = Event()

    def while_needed() -> None:
        if refused.is_set():
            raise _NotNeededError
        if checkpoint is not None:
            checkpoint()

    with ThreadPoolExecutor(max_workers=1) as beside:
        start = beside.submit(check_kernel, opened, settings, while_needed)
        try:
            check_reference(opened, settings, checkpoint)
            start.result()
        except BaseException:
            refused.set()
            raise


_DONE: dict[Stage, str] = {"build": "built", "check": "checked", "measure": "measured"}


_EMPTY_BODY = re.compile(r"\bkernel\s*\([^{}]*\)\s*\{\s*\}")
"""A C function without statements, as `tilewright init --from-function` writes it."""


def start_error(task: str, failed: Failed, source: str = "") -> TilewrightError:
    """The error message if the starting kernel of a task, with this source, cannot be used."""
    lines = [line.strip() for line in failed.log.splitlines() if line.strip()] or ["no log"]
    if failed.kind == "not_checked":  # nothing says that it is wrong
        return WorkloadError(
            f"the starting kernel of {task} cannot be checked here, and a search needs one that "
            f"can: {lines[0].rstrip('.')}. Check a kernel of your own with `tilewright evaluate "
            f"FILE --workload {task}`."
        )
    if failed.stage == "check" and _EMPTY_BODY.search(without_comments(source)):
        return WorkloadError(
            f"the starting kernel of {task} computes nothing, because the body of its function "
            "`kernel` is empty: write code there that computes what the reference computes."
        )
    what = f"the starting kernel of {task} {failed.words}"
    if failed.kind == "crash":  # no kernel should be able to end the evaluating process
        said = f"{what}: {lines[-1].rstrip('.')}."
        if Path(task).is_absolute():
            return WorkloadError(
                f"{said} If the reference ends the process that calls it, or needs more memory "
                "than this machine has, correct the reference; otherwise, report a defect."
            )
        return InternalError(said)
    if failed.kind == "timeout":  # nothing says that it is wrong
        return WorkloadError(
            f"the starting kernel of {task} was not {_DONE[failed.stage]} in time: "
            f"{lines[0].rstrip('.')}. This does not show that the kernel is wrong: use a smaller "
            "size or a faster machine, and correct the kernel only if it does not end."
        )
    named = [line for line in lines if failed.line and f":{failed.line}:" in line]
    telling = (named + lines)[0].rstrip(".")
    remedy = "correct the kernel"
    if failed.kind == "wrong_result":
        remedy = (
            "the kernel and the reference give different results, so correct the one that is wrong"
        )
        if "expected nan" in telling:
            remedy = (
                "the reference returns NaN, which no kernel can match: correct the reference, or "
                "describe in workload.toml the inputs for which it returns numbers"
            )
        elif Path(task).is_absolute() and " within " in telling:
            remedy += (
                "; if both are correct, write the operations of the reference in the kernel's "
                "order, describe the inputs in workload.toml, or give another tolerance "
                "(docs/tolerance.md)"
            )
    return WorkloadError(f"{what}: {telling}; {remedy}.")
