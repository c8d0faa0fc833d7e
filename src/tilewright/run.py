"""Begins and resumes the runs of a project.

`optimize` continues an unfinished run with the same task and settings, for example after a crash or
Ctrl-C. `resume` continues a run by its id.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic

from tilewright.agents.names import is_agent_name, refuse_agents, require_agents
from tilewright.cluster.address import LOCAL, Place, parse_executor, refuse_two_places
from tilewright.core.config import Settings
from tilewright.core.errors import ConfigurationError, InputError
from tilewright.core.plugins import load_proposers, load_strategy
from tilewright.core.records import (
    RunRecord,
)
from tilewright.core.roles import (
    OffersTemplates,
    Storage,
)
from tilewright.core.tasks import OpenTask, open_task
from tilewright.evaluating import require_clock, versions_of
from tilewright.evaluation.disk import require_room
from tilewright.examining import Examination
from tilewright.models import Models
from tilewright.proposers.llm.models import is_model_name
from tilewright.run_clock import RunClock
from tilewright.search.events import OnEvent
from tilewright.search.reuse import schedule_of
from tilewright.search.stepwise import Stepwise
from tilewright.search.summary import Summary
from tilewright.session import Parts, Session
from tilewright.verification import require_preflight


def open_project(project: Path, *, create: bool = False) -> Storage:
    """The storage of a project folder; `StorageError` if it is missing or not usable."""
    from tilewright.storage.project import open_project

    return open_project(project, create=create)


def standing(project: Path, run: RunRecord) -> str:
    """The run's status; "killed" if the stored status is "running" but no process works on the
    run.
    """
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
    strict_replay: bool = False,
    executor: str = LOCAL,
    began: float | None = None,
) -> Summary:
    """Search for a faster kernel of a workload or folder, or resume an unfinished run of the same
    task and settings.

    With `replay`, replies are read from the recording instead of calling models. With
    `strict_replay`, a prompt that differs from the recorded one is an `InputError`. `executor` says
    where candidates are evaluated ("local", "dask" or "dask://HOST:PORT"). The time of the budget
    is counted from `began` (`time.monotonic`), by default from this call. After Ctrl-C, the run
    has the status "interrupted" and the best kernel so far. Raises `WorkloadError` if the starting
    kernel fails, and other `TilewrightError`s if the input, the machine, the models or the database
    cannot be used.
    """
    place = parse_executor(executor)
    refuse_two_places(place, settings.host)
    with _session(
        task, settings, project, on_event, replay, strict_replay, place, began
    ) as session:
        return session.work(workers)


@contextmanager
def stepwise(
    task: str,
    settings: Settings,
    *,
    project: Path,
    workers: int | None = None,
    on_event: OnEvent = lambda event: None,
    executor: str = LOCAL,
) -> Iterator[Stepwise]:
    """Begin the run of `optimize` for a caller with its own loop: a context manager that returns a
    `Stepwise`.

    Raises the exceptions of `optimize`. Leaving the block before the budget is spent interrupts the
    run.
    """
    refuse_agents(settings.proposers)
    place = parse_executor(executor)
    refuse_two_places(place, settings.host)
    with (
        _session(task, settings, project, on_event, place=place) as session,
        session.stepwise(workers) as steps,
    ):
        yield steps


@contextmanager
def _session(
    task: str,
    settings: Settings,
    project: Path,
    on_event: OnEvent,
    replay: Path | None = None,
    strict_replay: bool = False,
    place: Place | None = None,
    began: float | None = None,
) -> Iterator[Session]:
    """The session of a new run, or of the unfinished run with the same task and settings."""
    from tilewright.storage.project import secret_of

    began = monotonic() if began is None else began
    require_room()  # a compiler that cannot write would look like a broken one
    if replay is not None:
        settings = replace(settings, reuse=False)  # the recorded run's prompts must be repeated
    opened, parts = _possible(task, settings, project, replay, strict_replay, place)
    versions = versions_of(opened)
    with ExitStack() as stack:
        storage = stack.enter_context(closing(open_project(project, create=True)))
        if settings.schedule_from:
            settings = replace(settings, schedule_from=_source(storage, opened, settings))
        examination = _examination(opened, settings, project, versions)
        if examination is None:
            clock = RunClock(settings.budget.wall_s, 0.0, began)
            tested = (
                f"the correctness check of {opened.name} had been tested with wrong kernels, which "
                "is done once per project"
            )
            require_preflight(opened, settings, project, versions, lambda: clock.require(tested))
        run = _new_run(opened, settings, versions)
        stack.enter_context(_lock(project, run))
        unfinished = storage.unfinished(run.identity)
        if unfinished is not None and unfinished.versions == versions:
            run = unfinished
        else:
            storage.create_run(run)
        secret = secret_of(project, run.id)
        yield Session(
            opened, settings, storage, run, parts, on_event, secret, began, place, examination
        )


def require_possible(
    task: str, settings: Settings, *, project: Path, replay: Path | None = None
) -> None:
    """Raise the errors with which `optimize` refuses a task, its settings or its models before it
    stores anything; a recording is strict."""
    _possible(task, settings, project, replay, strict_replay=True)


def _possible(
    task: str,
    settings: Settings,
    project: Path,
    replay: Path | None = None,
    strict_replay: bool = False,
    place: Place | None = None,
) -> tuple[OpenTask, Parts]:
    """The opened task and the parts of its run."""
    opened = open_task(task, settings.recorded())
    if place is None and not settings.host:
        require_clock(opened, settings, project)
    parts = _parts(opened, settings, Models(settings, project, replay, strict_replay))
    _require_values(opened, settings)
    return opened, parts


def finished_run(task: str, settings: Settings, *, project: Path) -> RunRecord | None:
    """The newest finished run of the same task, settings and versions, if the project has one."""
    opened = open_task(task, settings.recorded())
    wanted = _new_run(opened, settings, versions_of(opened))
    with closing(open_project(project, create=True)) as storage:
        return next(
            (
                run
                for run in storage.runs()
                if run.status == "finished"
                and (run.identity, run.versions) == (wanted.identity, wanted.versions)
            ),
            None,
        )


def resume(
    run_id: str,
    *,
    project: Path,
    workers: int | None = None,
    on_event: OnEvent = lambda event: None,
    executor: str = LOCAL,
    began: float | None = None,
) -> Summary:
    """Continue an unfinished run; `InputError` if it is finished or cannot be continued."""
    from tilewright.storage.project import secret_of

    began = monotonic() if began is None else began
    place = parse_executor(executor)
    with ExitStack() as stack:
        storage = stack.enter_context(closing(open_project(project)))
        run = storage.run(run_id)
        if run.status == "finished":
            raise InputError(
                f"run {run.id} is finished ({run.stop_reason}), so there is nothing to resume. "
                "Start a new search with other settings."
            )
        settings = Settings.from_recorded(run.settings)
        opened = open_task(run.task, settings.recorded())
        _require_versions(run, versions_of(opened))
        parts = _parts(opened, settings, Models(settings, project))
        examination = _examination(opened, settings, project, run.versions)
        stack.enter_context(_lock(project, run))
        secret = secret_of(project, run.id)
        session = Session(
            opened, settings, storage, run, parts, on_event, secret, began, place, examination
        )
        return session.work(workers)


def _parts(opened: OpenTask, settings: Settings, models: Models) -> Parts:
    """The parts of a run, which are loaded before anything is stored, so that unknown names are
    refused first.
    """
    require_agents(settings.proposers)
    others = load_proposers(models.others, opened.target.brief())
    return Parts(load_strategy(settings), models, others)


def _examination(
    opened: OpenTask, settings: Settings, project: Path, versions: Mapping[str, str]
) -> Examination | None:
    """The examination of the task during the search; None if the task must be examined before the
    search.

    With models, the task is examined before the search, so that no money is spent on a task that is
    refused.
    """
    if any(is_model_name(n) or is_agent_name(n) for n in settings.proposers):
        return None
    if not Examination.is_of(opened):
        return None
    return Examination(opened, partial(require_preflight, opened, settings, project, versions))


def _source(storage: Storage, opened: OpenTask, settings: Settings) -> str:
    """The full id of the run whose schedule is reused; `InputError` if its schedule cannot be used
    for this task.
    """
    source = storage.run(settings.schedule_from)
    if source.target != opened.target.name:
        raise InputError(
            f"run {source.id} is for target {source.target}, but {opened.name} is for target "
            f"{opened.target.name}. Choose a run of the same target; `tilewright runs list` lists "
            "them."
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


def _require_values(opened: OpenTask, settings: Settings) -> None:
    """Raise `ConfigurationError` if only values are to be searched and no kernel has parameters."""
    offered = isinstance(opened.task, OffersTemplates) and opened.task.templates()
    if "structure" in settings.without and opened.template is None and not offered:
        raise ConfigurationError(
            "with --without structure only the values of a template are searched, but the kernel "
            f"of {opened.name} is not a template. Give a folder whose kernel leaves values open "
            "(docs/templates.md), or leave out --without structure."
        )


def _require_versions(run: RunRecord, versions: Mapping[str, str]) -> None:
    for name in sorted({*run.versions, *versions}):
        was, now = run.versions.get(name, "none"), versions.get(name, "none")
        if was != now:
            raise ConfigurationError(
                f"run {run.id} was made with {name} {was}, but this machine has {now}. The results "
                "of the two versions are not comparable, so start a new run with the same "
                "`optimize` command."
            )


def _lock(project: Path, run: RunRecord) -> AbstractContextManager[object]:
    from tilewright.storage.project import run_lock

    return run_lock(project, run.identity)
