"""Runs of a project: begun, gone on with, and single kernels evaluated beside them.

`optimize` finds an unfinished run of the same task and settings and goes on with it, so that
after a crash, a kill or Ctrl-C the same command continues; `resume` does so by run id.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from tilewright.core.config import Settings
from tilewright.core.errors import ConfigurationError, InputError
from tilewright.core.records import (
    Baseline,
    Candidate,
    EvaluationRequest,
    ExternalResult,
    Failed,
    Measured,
    Outcome,
    RunRecord,
)
from tilewright.core.roles import ExternallySimulated, ExternalRun, Storage
from tilewright.core.tasks import OpenTask, open_task
from tilewright.executors import create_executor, evaluate_baselines
from tilewright.models import Models
from tilewright.search.events import OnEvent
from tilewright.search.reuse import schedule_of
from tilewright.search.summary import Summary
from tilewright.session import Session
from tilewright.verification import require_preflight


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One kernel's outcome outside any search. `versions` says by what it was evaluated.

    `external` is its run on another simulator, if one was asked for and the kernel passed here;
    `baselines` are the target's, if they were asked for.
    """

    workload: str
    target: str
    candidate: Candidate
    outcome: Outcome
    wall_s: float
    cached: bool
    versions: Mapping[str, str]
    external: ExternalResult | Failed | None = None
    baselines: tuple[Baseline, ...] = ()


def open_project(project: Path, *, create: bool = False) -> Storage:
    """The storage of a project folder; `StorageError` if it is missing or not usable."""
    from tilewright.storage.project import open_project

    return open_project(project, create=create)


def standing(project: Path, run: RunRecord) -> str:
    """The run's status; "killed" where it says running but no process works on it."""
    from tilewright.storage.project import run_lock

    if run.status == "running" and not run_lock(project, run.identity).is_held():
        return "killed"
    return run.status


def optimize(
    task: str,
    settings: Settings,
    *,
    project: Path,
    workers: int | None = None,
    on_event: OnEvent = lambda event: None,
    replay: Path | None = None,
) -> Summary:
    """Search for a faster kernel of a workload or folder; resumes an unfinished equal run.

    With `replay`, models are not asked: their replies come from that recording. Ctrl-C ends the
    run with status "interrupted" and the best so far. `WorkloadError` when the starting kernel
    fails, further `TilewrightError`s for unusable input, machine, models or database.
    """
    opened = open_task(task, settings.recorded())
    versions = _versions(opened)
    models = Models(settings, project, replay)
    with ExitStack() as stack:
        storage = stack.enter_context(closing(open_project(project, create=True)))
        if settings.schedule_from:
            settings = replace(settings, schedule_from=_source(storage, opened, settings))
        require_preflight(opened, settings, project, versions)
        run = _new_run(opened, settings, versions)
        stack.enter_context(_lock(project, run))
        unfinished = storage.unfinished(run.identity)
        if unfinished is not None and unfinished.versions == versions:
            run = unfinished
        else:
            storage.create_run(run)
        return Session(opened, settings, storage, run, models, on_event).work(workers)


def resume(
    run_id: str,
    *,
    project: Path,
    workers: int | None = None,
    on_event: OnEvent = lambda event: None,
) -> Summary:
    """Go on with an unfinished run; `InputError` when it is finished or cannot be continued."""
    with ExitStack() as stack:
        storage = stack.enter_context(closing(open_project(project)))
        run = storage.run(run_id)
        if run.status == "finished":
            raise InputError(
                f"run {run.id} is finished ({run.stop_reason}): there is nothing to resume; "
                "start a new search with other settings."
            )
        settings = Settings.from_recorded(run.settings)
        opened = open_task(run.task, settings.recorded())
        _require_versions(run, _versions(opened))
        models = Models(settings, project)
        stack.enter_context(_lock(project, run))
        return Session(opened, settings, storage, run, models, on_event).work(workers)


def evaluate_file(
    file: Path,
    task: str,
    settings: Settings,
    *,
    project: Path | None = None,
    simulator: str | None = None,
    simulator_timeout_s: float = 3600.0,
    with_baselines: bool = False,
) -> Evaluation:
    """Build, check and measure one kernel; takes outcomes from the project's cache if named.

    A kernel that passes is then run on the external `simulator`, if one is named, and the target's
    baselines are evaluated `with_baselines`.
    """
    opened = open_task(task, settings.recorded())
    run_external = _external(opened, simulator) if simulator else None
    candidate = Candidate(_read_kernel(file), proposer="file")
    finished: list[tuple[Outcome, float, bool]] = []
    with ExitStack() as stack:
        storage = None
        if project is not None:
            storage = stack.enter_context(closing(open_project(project, create=True)))
        executor = stack.enter_context(closing(create_executor(opened, settings, 1, storage)))
        executor.evaluate(
            [EvaluationRequest(candidate)],
            lambda _, outcome, wall_s, cached: finished.append((outcome, wall_s, cached)),
        )
        compared = evaluate_baselines(opened, executor) if with_baselines else ()
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
        versions=_versions(opened),
        external=external,
        baselines=compared,
    )


def _external(opened: OpenTask, simulator: str) -> ExternalRun:
    if not isinstance(opened.task, ExternallySimulated):
        raise InputError(
            f"target {opened.target.name} knows no external simulators: leave {simulator!r} out."
        )
    return opened.task.external(simulator)


def _source(storage: Storage, opened: OpenTask, settings: Settings) -> str:
    """The full id of the run whose schedule is reused; `InputError` if it is of no use here."""
    source = storage.run(settings.schedule_from)
    if source.target != opened.target.name:
        raise InputError(
            f"run {source.id} is for target {source.target}, {opened.name} for "
            f"{opened.target.name}: name a run of the same target (`tilewright runs list`)."
        )
    schedule_of(source, storage.history(source.id))
    return source.id


def _new_run(opened: OpenTask, settings: Settings, versions: Mapping[str, str]) -> RunRecord:
    from tilewright.storage.sql import now

    return RunRecord(
        id=secrets.token_hex(4),
        task=opened.name,
        target=opened.target.name,
        settings=settings.recorded(),
        versions=versions,
        created_at=now(),
    )


def _versions(opened: OpenTask) -> dict[str, str]:
    """What outcomes depend on beside the settings: a run is only continued by the same."""
    return {
        "tilewright": version("tilewright"),
        **opened.target.versions(),
        "task": opened.fingerprint,
    }


def _require_versions(run: RunRecord, versions: Mapping[str, str]) -> None:
    for name in sorted({*run.versions, *versions}):
        was, now = run.versions.get(name, "none"), versions.get(name, "none")
        if was != now:
            raise ConfigurationError(
                f"run {run.id} was made with {name} {was}, and here is {now}: its results would "
                "not be comparable, so start a new run with the same `optimize` command."
            )


def _lock(project: Path, run: RunRecord) -> AbstractContextManager[object]:
    from tilewright.storage.project import run_lock

    return run_lock(project, run.identity)


def _read_kernel(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"kernel file {file} cannot be read ({error}): name a C file in UTF-8."
        ) from error
