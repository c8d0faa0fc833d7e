"""Evaluates single kernels outside any search, and gives information about kernels that cannot be
timed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tilewright.core.config import Settings
from tilewright.core.errors import InputError, NotTimedError
from tilewright.core.files import MAX_TEXT_BYTES, read_kernel, read_text
from tilewright.core.records import (
    Baseline,
    Candidate,
    EvaluationRequest,
    ExternalResult,
    Failed,
    KernelLanguage,
    Measured,
    Outcome,
)
from tilewright.core.roles import (
    DerivesKernels,
    ExplainsCode,
    ExternallySimulated,
    ExternalRun,
    OffersTemplates,
    Task,
    Untimed,
)
from tilewright.core.tasks import OpenTask, open_task, target_versions
from tilewright.core.templates import concrete
from tilewright.evaluation.building import Builds
from tilewright.evaluation.code_notes import CodeNotes
from tilewright.evaluation.disk import require_room
from tilewright.executors import create_executor, evaluate_baselines, tuned_baselines
from tilewright.verification import fresh_seed

EVALUATIONS = "evaluations"
"""The name under which a project stores the secret seed for evaluations outside any run."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The outcome of one kernel outside any search, with the versions of the tools that evaluated
    it.

    `external` is the result of another simulator, if you requested one and the kernel is correct.
    `baselines` are the outcomes of the target's own kernels, if you requested them. `not_tuned`
    says how to add a kernel of the tuner to them, if the tuner could make one and has not.

    >>> import tilewright as tw
    >>> found = tw.evaluate("void kernel(", "gemmini:gemm-16x16x16")
    >>> isinstance(found, tw.Evaluation), found.target, found.cached
    (True, 'gemmini', False)
    """

    workload: str
    target: str
    candidate: Candidate
    outcome: Outcome
    wall_s: float
    cached: bool
    versions: Mapping[str, str]
    language: KernelLanguage
    external: ExternalResult | Failed | None = None
    baselines: tuple[Baseline, ...] = ()
    not_tuned: str = ""


def code_notes(evaluation: Evaluation, settings: Settings) -> tuple[str, ...]:
    """The compiler's notes on an evaluated kernel; empty if the target provides none."""
    opened = open_task(evaluation.workload, settings.recorded())
    if not isinstance(opened.task, ExplainsCode) or not isinstance(evaluation.outcome, Measured):
        return ()
    with closing(Builds(opened.name, settings.evaluated_with(fresh_seed()))) as builds:
        return CodeNotes(builds).of(evaluation.candidate.source)


def evaluate_kernel(
    kernel: str | Path,
    task: str,
    settings: Settings,
    *,
    project: Path | None = None,
    simulator: str | None = None,
    simulator_timeout_s: float = 3600.0,
    with_baselines: bool = False,
    tuned_in: Path | None = None,
) -> Evaluation:
    """Build, check and measure one kernel. If a project is given, its cached outcomes are used.

    The kernel is given as its source or as the path of its file. A template gets its first values.
    A kernel that passes is then run on the external `simulator`, if one is named, and the target's
    baselines are evaluated `with_baselines`, as well as the kernels of the tuner that the project
    `tuned_in` stores (by default `project`).
    """
    from tilewright.storage.project import open_project, secret_of, tuned_kernels

    require_room()
    opened = open_task(task, settings.recorded())
    language = opened.target.brief().language
    secret = fresh_seed() if project is None else secret_of(project, EVALUATIONS)
    evaluated = settings.evaluated_with(secret)
    run_external = _external(open_task(task, evaluated), simulator) if simulator else None
    source = kernel if isinstance(kernel, str) else read_kernel(kernel, language)
    candidate = Candidate(concrete(source, language.templates), proposer="file")
    finished: list[tuple[Outcome, float, bool]] = []
    with ExitStack() as stack:
        storage = None
        if project is not None:
            storage = stack.enter_context(closing(open_project(project, create=True)))
        executor = stack.enter_context(closing(create_executor(opened, evaluated, 1, storage)))
        executor.evaluate(
            [EvaluationRequest(candidate)],
            lambda _, outcome, wall_s, cached: finished.append((outcome, wall_s, cached)),
        )
        compared: tuple[Baseline, ...] = ()
        missing = ""
        if with_baselines:
            place = tuned_in or project
            tuned, missing = tuned_baselines(
                opened, partial(tuned_kernels, place) if place else lambda *_: []
            )
            compared = evaluate_baselines(opened, executor, tuned=tuned)
    outcome, wall_s, cached = finished[0]
    external = None
    if run_external is not None and isinstance(outcome, Measured):
        external = run_external(candidate.source, simulator_timeout_s)
    return Evaluation(
        workload=opened.name,
        target=opened.target.name,
        candidate=candidate,
        outcome=outcome,
        wall_s=wall_s,
        cached=cached,
        versions=versions_of(opened),
        language=language,
        external=external,
        baselines=compared,
        not_tuned=missing,
    )


def _external(opened: OpenTask, simulator: str) -> ExternalRun:
    if not isinstance(opened.task, ExternallySimulated):
        raise InputError(
            f"target {opened.target.name} has no external simulators. Leave out --simulator "
            f"{simulator!r}."
        )
    return opened.task.external(simulator)


def versions_of(opened: OpenTask) -> dict[str, str]:
    """The versions on which outcomes depend. A run is continued only with the same versions."""
    return {**target_versions(opened.target), "task": opened.fingerprint}


def require_clock(opened: OpenTask, settings: Settings, project: Path) -> None:
    """Raise `NotTimedError` if this machine cannot time the kernels of the task."""
    if isinstance(opened.task, Untimed) and opened.task.untimed is not None:
        said = f"{opened.name} cannot be optimised on this machine: {opened.task.untimed}."
        raise NotTimedError(f"{said}{_possible(opened)}{_derived(opened, settings, project)}")


def _possible(opened: OpenTask) -> str:
    """The commands that compile and check the task's kernels without timing them."""
    name, task = shlex.quote(opened.name), opened.task
    if isinstance(task, DerivesKernels) and task.derived and not _has_templates(task):
        return (
            f" `tilewright evaluate FILE --workload {name}` compiles and checks an answer of your "
            "own on this machine."
        )
    said = f" `tilewright check {name}` compiles and checks the starting kernel on this machine"
    if not Path(opened.name).is_dir():
        return f"{said}."
    file = shlex.quote(str(Path(opened.name) / opened.target.brief().language.file))
    return f"{said}, and `tilewright evaluate {file} --workload {name}` a kernel that you changed."


def _has_templates(task: Task) -> bool:
    return isinstance(task, OffersTemplates) and bool(task.templates())


def _derived(opened: OpenTask, settings: Settings, project: Path) -> str:
    """Information, without a measurement, about the kernel that a task derived from its problem.

    The kernel is written into the project's folder, unless another file has its name.
    """
    task = opened.task
    if not isinstance(task, DerivesKernels) or not task.derived:
        return ""
    said = f" {task.derived[0].upper()}{task.derived[1:]}"
    if not _has_templates(task):
        return said
    file = project / f"{Path(opened.name).stem}_answer.py"
    held = task.start.rstrip("\n") + "\n"
    try:
        if file.exists() and read_text(file, MAX_TEXT_BYTES) != held:
            where = f"{file} is a different file, so the kernel was not written. The derived kernel"
        else:
            project.mkdir(parents=True, exist_ok=True)
            file.write_text(held, encoding="utf-8")
            where = f"{file} contains the kernel that tilewright derived. That kernel"
    except OSError as error:
        where = f"{file} cannot be written ({error.strerror}). The derived kernel"
    try:
        outcome = evaluate_kernel(task.start, opened.name, settings).outcome
    except NotTimedError as error:
        return f"{said} {where} {error.known}"
    told = outcome.log.strip() if isinstance(outcome, Failed) else "it was timed"
    return f"{said} {where} is not known to be correct: {told}"
