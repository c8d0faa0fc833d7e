"""Runs of a project: begun, gone on with, and single kernels evaluated beside them.

`optimize` finds an unfinished run of the same task and settings and goes on with it, so that
after a crash, a kill or Ctrl-C the same command continues; `resume` does so by run id.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import monotonic

from tilewright.agents.names import is_agent_name, refuse_agents, require_agents
from tilewright.cluster.address import LOCAL, Place, parse_executor, refuse_two_places
from tilewright.core.config import Settings
from tilewright.core.errors import ConfigurationError, InputError, NotTimedError
from tilewright.core.files import MAX_TEXT_BYTES, read_kernel, read_text
from tilewright.core.plugins import load_proposers, load_strategy
from tilewright.core.records import (
    Baseline,
    Candidate,
    EvaluationRequest,
    ExternalResult,
    Failed,
    KernelLanguage,
    Measured,
    Outcome,
    RunRecord,
)
from tilewright.core.roles import (
    DerivesKernels,
    ExplainsCode,
    ExternallySimulated,
    ExternalRun,
    OffersTemplates,
    Storage,
    Untimed,
)
from tilewright.core.tasks import OpenTask, open_task
from tilewright.core.templates import concrete
from tilewright.evaluation.building import Builds
from tilewright.evaluation.code_notes import CodeNotes
from tilewright.evaluation.disk import require_room
from tilewright.examining import Examination
from tilewright.executors import create_executor, evaluate_baselines
from tilewright.models import Models
from tilewright.proposers.llm.models import is_model_name
from tilewright.search.events import OnEvent
from tilewright.search.reuse import schedule_of
from tilewright.search.stepwise import Stepwise
from tilewright.search.summary import Summary
from tilewright.session import Session
from tilewright.verification import fresh_seed, require_preflight

EVALUATIONS = "evaluations"
"""Owner of the secret that a project's kernels are evaluated with outside any run."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One kernel's outcome outside any search. `versions` says by what it was evaluated.

    `external` is its run on another simulator, if one was asked for and the kernel passed here;
    `baselines` are the target's, if they were asked for.

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
    strict_replay: bool = False,
    executor: str = LOCAL,
) -> Summary:
    """Search for a faster kernel of a workload or folder; resumes an unfinished equal run.

    With `replay`, models are not asked: their replies come from that recording, and with
    `strict_replay` a prompt that differs from the recorded one is an `InputError`. `executor` says
    where candidates are evaluated ("local", "dask" or "dask://HOST:PORT"). Ctrl-C ends the
    run with status "interrupted" and the best so far. `WorkloadError` when the starting kernel
    fails, further `TilewrightError`s for unusable input, machine, models or database.
    """
    place = parse_executor(executor)
    refuse_two_places(place, settings.host)
    with _session(task, settings, project, on_event, replay, strict_replay, place) as session:
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
    """The same run for a caller with a loop of his own: he asks and tells (`Stepwise`).

    Raises what `optimize` raises. Leaving it before the budget is spent interrupts the run.
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
) -> Iterator[Session]:
    """The work on a new run, or on the unfinished one of the same task and settings."""
    began = monotonic()
    require_room()  # before a compiler that cannot write is taken for a broken one
    if replay is not None:
        settings = replace(settings, reuse=False)  # it repeats what the recorded run was shown
    opened = open_task(task, settings.recorded())
    if place is None and not settings.host:
        _require_clock(opened, settings, project)
    versions = _versions(opened)
    strategy = load_strategy(settings)
    require_agents(settings.proposers)
    models = Models(settings, project, replay, strict_replay)
    others = load_proposers(models.others, opened.target.brief())
    _require_values(opened, settings)
    with ExitStack() as stack:
        storage = stack.enter_context(closing(open_project(project, create=True)))
        if settings.schedule_from:
            settings = replace(settings, schedule_from=_source(storage, opened, settings))
        examination = _examination(opened, settings, project, versions)
        if examination is None:
            require_preflight(opened, settings, project, versions)
        run = _new_run(opened, settings, versions)
        stack.enter_context(_lock(project, run))
        unfinished = storage.unfinished(run.identity)
        if unfinished is not None and unfinished.versions == versions:
            run = unfinished
        else:
            storage.create_run(run)
        secret = _secret(project, run.id)
        yield Session(
            opened,
            settings,
            storage,
            run,
            strategy,
            models,
            others,
            on_event,
            secret,
            began,
            place,
            examination,
        )


def finished_run(task: str, settings: Settings, *, project: Path) -> RunRecord | None:
    """The newest finished run of the same task, settings and versions, if the project has one."""
    opened = open_task(task, settings.recorded())
    wanted = _new_run(opened, settings, _versions(opened))
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
) -> Summary:
    """Go on with an unfinished run; `InputError` when it is finished or cannot be continued."""
    began = monotonic()
    place = parse_executor(executor)
    with ExitStack() as stack:
        storage = stack.enter_context(closing(open_project(project)))
        run = storage.run(run_id)
        if run.status == "finished":
            raise InputError(
                f"run {run.id} is finished ({run.stop_reason}), so that there is nothing to "
                "resume. Start a new search with other settings."
            )
        settings = Settings.from_recorded(run.settings)
        opened = open_task(run.task, settings.recorded())
        _require_versions(run, _versions(opened))
        strategy = load_strategy(settings)
        require_agents(settings.proposers)
        models = Models(settings, project)
        others = load_proposers(models.others, opened.target.brief())
        stack.enter_context(_lock(project, run))
        secret = _secret(project, run.id)
        session = Session(
            opened,
            settings,
            storage,
            run,
            strategy,
            models,
            others,
            on_event,
            secret,
            began,
            place,
            _examination(opened, settings, project, run.versions),
        )
        return session.work(workers)


def code_notes(evaluation: Evaluation, settings: Settings) -> tuple[str, ...]:
    """What the compiler says of an evaluated kernel; empty where the target does not tell."""
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
) -> Evaluation:
    """Build, check and measure one kernel; takes outcomes from the project's cache if named.

    It is given as its source, or as the path of its file; a template has its first values. A kernel
    that passes is then run on the external `simulator`, if one is named, and the target's baselines
    are evaluated `with_baselines`.
    """
    require_room()
    opened = open_task(task, settings.recorded())
    language = opened.target.brief().language
    secret = fresh_seed() if project is None else _secret(project, EVALUATIONS)
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
        language=language,
        external=external,
        baselines=compared,
    )


def _external(opened: OpenTask, simulator: str) -> ExternalRun:
    if not isinstance(opened.task, ExternallySimulated):
        raise InputError(
            f"target {opened.target.name} has no external simulators. Leave out --simulator "
            f"{simulator!r}."
        )
    return opened.task.external(simulator)


def _examination(
    opened: OpenTask, settings: Settings, project: Path, versions: Mapping[str, str]
) -> Examination | None:
    """What examines the task beside the search; None where that has to come before it.

    Calls to a model cost money, which is not spent on a task that may be refused.
    """
    if any(is_model_name(n) or is_agent_name(n) for n in settings.proposers):
        return None
    if not Examination.is_of(opened):
        return None
    return Examination(opened, partial(require_preflight, opened, settings, project, versions))


def _source(storage: Storage, opened: OpenTask, settings: Settings) -> str:
    """The full id of the run whose schedule is reused; `InputError` if it is of no use here."""
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
    """`ConfigurationError` where values alone are to be searched, and no kernel leaves any open."""
    offered = isinstance(opened.task, OffersTemplates) and opened.task.templates()
    if "structure" in settings.without and opened.template is None and not offered:
        raise ConfigurationError(
            "with --without structure only the values of a template are searched, but the kernel "
            f"of {opened.name} is not a template. Give a folder whose kernel leaves values open "
            "(docs/templates.md), or leave out --without structure."
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


def _secret(project: Path, owner: str) -> int:
    from tilewright.storage.project import secret_of

    return secret_of(project, owner)


def _require_clock(opened: OpenTask, settings: Settings, project: Path) -> None:
    """`NotTimedError` where a search here would have nothing to rank by."""
    if isinstance(opened.task, Untimed) and opened.task.untimed is not None:
        said = f"{opened.name} cannot be optimised on this machine: {opened.task.untimed}."
        raise NotTimedError(f"{said}{_derived(opened, settings, project)}")


def _derived(opened: OpenTask, settings: Settings, project: Path) -> str:
    """What is known, without a clock, of the kernel that a task makes of its problem.

    The kernel is written into the project's folder, unless another file has its name.
    """
    task = opened.task
    if not isinstance(task, DerivesKernels) or not task.derived:
        return ""
    said = f" {task.derived[0].upper()}{task.derived[1:]}"
    if not (isinstance(task, OffersTemplates) and task.templates()):
        return said
    file = project / f"{Path(opened.name).stem}_answer.py"
    held = task.start.rstrip("\n") + "\n"
    try:
        if file.exists() and read_text(file, MAX_TEXT_BYTES) != held:
            where = f"{file} is another file: move it to be given the kernel made for it, which"
        else:
            project.mkdir(parents=True, exist_ok=True)
            file.write_text(held, encoding="utf-8")
            where = f"{file} holds a kernel that was made for it, which"
    except OSError as error:
        where = f"{file} cannot be written ({error.strerror}), but the kernel made for it"
    try:
        outcome = evaluate_kernel(task.start, opened.name, settings).outcome
    except NotTimedError as error:
        known = str(error).partition("; but ")[0].removeprefix("the kernel ")
        return f"{said} {where} {known}."
    told = outcome.log.strip() if isinstance(outcome, Failed) else "it was timed"
    return f"{said} {where} is not known to be right: {told}"


def _lock(project: Path, run: RunRecord) -> AbstractContextManager[object]:
    from tilewright.storage.project import run_lock

    return run_lock(project, run.identity)
