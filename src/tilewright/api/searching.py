"""Searches and evaluations from Python, with the same code as on the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

from tilewright import run as runs
from tilewright.api.results import OpenRun, Run
from tilewright.api.task import Task, require_kernel, written
from tilewright.core.budget_text import parse_budget
from tilewright.core.config import Settings
from tilewright.core.errors import InputError
from tilewright.core.records import Candidate
from tilewright.evaluating import Evaluation, evaluate_kernel
from tilewright.search.events import Event, RunStarted
from tilewright.workbench import workbench

OnEvent = Callable[[Event], None]
TASKS = Path(".tilewright") / "tasks"
"""The folder of a project that contains the folders of tasks that were given as functions."""


def optimize(
    task: str | Path | Task,
    *,
    budget: str | None = None,
    proposers: Sequence[str] = (),
    project: str | Path = ".",
    settings: Settings | None = None,
    workers: int | None = None,
    executor: str = "local",
    on_event: OnEvent | None = None,
    replay: str | Path | None = None,
) -> Run:
    """Search for a faster kernel, or continue an unfinished run of the same task and settings.

    Args:
        task: a workload's name, a folder with workload.toml, or a `Task` made of a kernel, a
            reference function and example arrays.
        budget: upper limits such as "90 s" or "500 evaluations" or "5 USD, 2 h".
        proposers: the names of the proposers, such as "builtin" or "openai/gpt-5.5"; by default the
            built-in rewriter.
        project: the folder whose subfolder .tilewright/ stores runs.
        settings: all other settings. `budget` and `proposers` take precedence over them.
        workers: number of evaluations at the same time; by default one per core.
        executor: where candidates are evaluated: "local", "dask" (worker processes on this machine)
            or "dask://HOST:PORT", the scheduler of a cluster (docs/cluster.md).
        on_event: called with an event for every step (`tw.events`), in the calling thread.
        replay: a file with recorded replies of models, which are used instead of calling a model.

    Ctrl-C, or the stop button of a notebook, ends the run with the best kernel so far and the
    status "interrupted". If an argument cannot be used, a `TilewrightError` says why.

    >>> import tilewright as tw
    >>> run = tw.optimize("gemmini:gemm-16x16x16", budget="2 evaluations")
    >>> run.summary.verdict, len(run.history)
    ('correct', 2)
    """
    place = Path(project)
    summary = runs.optimize(
        _named(task, place),
        _settings(settings, budget, proposers),
        project=place,
        workers=workers,
        executor=executor,
        on_event=on_event or _nobody,
        replay=Path(replay) if replay is not None else None,
    )
    return Run(summary.run_id, place)


async def aoptimize(
    task: str | Path | Task,
    *,
    budget: str | None = None,
    proposers: Sequence[str] = (),
    project: str | Path = ".",
    settings: Settings | None = None,
    workers: int | None = None,
    executor: str = "local",
    on_event: OnEvent | None = None,
    replay: str | Path | None = None,
) -> Run:
    """`optimize` for an event loop: the search runs in a thread and calls `on_event` in the loop.

    If the asyncio task is cancelled, the run is interrupted at its next event and stored. The same
    call continues the run.

    >>> import asyncio
    >>> import tilewright as tw
    >>> run = asyncio.run(tw.aoptimize("gemmini:gemm-16x16x16", budget="2 evaluations"))
    >>> len(run.history)
    2
    """
    loop, cancelled = asyncio.get_running_loop(), False

    def hear(event: Event) -> None:
        if cancelled:
            raise KeyboardInterrupt
        if on_event is not None:
            loop.call_soon_threadsafe(on_event, event)

    search = loop.run_in_executor(
        None,
        partial(
            optimize,
            task,
            budget=budget,
            proposers=proposers,
            project=project,
            settings=settings,
            workers=workers,
            executor=executor,
            on_event=hear,
            replay=replay,
        ),
    )
    try:
        return await asyncio.shield(search)
    except asyncio.CancelledError:
        cancelled = True
        await asyncio.wait([search])
        raise


@contextmanager
def begin(
    task: str | Path | Task,
    *,
    budget: str | None = None,
    proposers: Sequence[str] = (),
    project: str | Path = ".",
    settings: Settings | None = None,
    workers: int | None = None,
    executor: str = "local",
    on_event: OnEvent | None = None,
) -> Iterator[OpenRun]:
    """Open a run for a search loop of your own, which asks for candidates and submits kernels.

    The arguments are those of `optimize`. Kernels that you submit are checked, timed and recorded
    like all others, and use the same budget. If you leave the `with` block before the budget is
    spent, the run is interrupted. `begin` or `optimize` with the same arguments continues
    the run.

    >>> import tilewright as tw
    >>> with tw.begin("gemmini:gemm-16x16x16", budget="2 evaluations") as run:
    ...     trial = run.tell(run.ask())
    >>> trial.index
    1
    """
    place, started = Path(project), []

    def hear(event: Event) -> None:
        if isinstance(event, RunStarted):
            started.append(event.run.id)
        (on_event or _nobody)(event)

    with workbench(
        _named(task, place),
        _settings(settings, budget, proposers),
        project=place,
        workers=workers,
        executor=executor,
        on_event=hear,
    ) as bench:
        steps = bench.steps  # begins the run
        yield OpenRun(started[0], place, bench, steps)


def evaluate(
    kernel: str | Path | Candidate,
    task: str | Path | Task,
    *,
    project: str | Path | None = None,
    settings: Settings | None = None,
    baselines: bool = False,
) -> Evaluation:
    """Build, check and time one kernel outside any run.

    `kernel` is the kernel's source or the path of its file. With `project`, an outcome that this
    project already contains is not measured again. With `baselines`, the target's own kernels are
    evaluated as well. The attribute `outcome` of the result is a `Measured` or a `Failed`.

    >>> import tilewright as tw
    >>> tw.evaluate("void kernel(", "gemmini:gemm-16x16x16").outcome.kind
    'compile_error'
    """
    require_kernel(kernel)
    _require_settings(settings)
    with TemporaryDirectory(prefix="tilewright-") as scratch:
        place = Path(scratch if project is None else project)
        evaluated, chosen = _named(task, place), settings or Settings()
        kept = None if project is None else place
        source = kernel.source if isinstance(kernel, Candidate) else kernel
        return evaluate_kernel(source, evaluated, chosen, project=kept, with_baselines=baselines)


def _named(task: str | Path | Task, project: Path) -> str:
    """The name with which any process can open the task."""
    if isinstance(task, Task):
        return written(task, project / TASKS)
    if not isinstance(task, str | PathLike):
        raise InputError(
            f"task is {task!r}, but must be a workload's name, a folder or a tw.Task. Give one "
            "like 'gemmini:gemm-512x512x512'."
        )
    return str(task)


def _settings(settings: Settings | None, budget: str | None, proposers: Sequence[str]) -> Settings:
    _require_settings(settings)
    chosen = settings or Settings()
    if budget is not None:
        if not isinstance(budget, str):
            raise InputError(
                f"budget is {budget!r}, but must be a string with a unit. Write for example "
                '"90 s" or "500 evaluations".'
            )
        chosen = replace(chosen, **Settings.limits(parse_budget(budget)))
    if proposers:
        names = (proposers,) if isinstance(proposers, str) else proposers
        chosen = replace(chosen, proposers=tuple(dict.fromkeys(names)))
    return chosen


def _require_settings(settings: object) -> None:
    if settings is not None and not isinstance(settings, Settings):
        raise InputError(
            f"settings is {settings!r}. Give tw.Settings, such as tw.Settings(seed=7)."
        )


def _nobody(event: Event) -> None:
    """Ignores all events."""
