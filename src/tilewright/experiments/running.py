"""Runs the cells of an experiment as ordinary runs in a project folder.

A cell is a run, which is found again by its task and settings. Finished runs are not repeated, and
a run that was killed is resumed. The file `points.jsonl` has one line for each evaluation, with the
amounts of the budget that were used when its outcome was known.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from tilewright.core.budget import Budget
from tilewright.core.config import Settings
from tilewright.core.records import Measured, RunRecord
from tilewright.experiments.definition import Cell, Experiment
from tilewright.models import model_calls
from tilewright.run import finished_run, open_project, optimize, require_possible
from tilewright.run_metadata import summary_of
from tilewright.search.events import Called, Evaluated, Event, RunStarted
from tilewright.search.processes import kept_processes
from tilewright.tuning.json_lines import append, read_lines

POINTS = "points.jsonl"
_AMOUNTS = ("trial", "calls", "usd", "seconds")
"""The fields of a line of this file that are numbers."""
OnCell = Callable[[Cell, "CellResult", int, int], None]
"""Called with each finished cell, its number and the total number."""


@dataclass(frozen=True, slots=True)
class Point:
    """The amounts that were used when a trial's outcome was known; `best` is the best latency so
    far.
    """

    evaluations: int
    calls: int
    usd: float
    seconds: float
    best: float | None


@dataclass(frozen=True, slots=True)
class CellResult:
    """A finished run of an experiment.

    Latencies are in `unit`, and `quantity` says how they were obtained; `best` was evaluated again
    on fresh inputs. `status` is the status of the run, and `reason` why it ended. `cached` of the
    `evaluations` are outcomes of other arms. `points` are in the order of time.
    """

    workload: str
    arm: str
    seed: int
    run_id: str
    status: str
    reason: str
    unit: str
    quantity: str
    start: float | None
    best: float | None
    evaluations: int
    cached: int
    calls: int
    usd: float
    seconds: float
    points: tuple[Point, ...]

    @property
    def speedup(self) -> float | None:
        """Speedup of the best kernel over the starting kernel; None if the starting kernel
        failed.
        """
        return self.start / self.best if self.start and self.best else None


class InterruptedExperimentError(Exception):
    """Ctrl-C ended a run and the experiment. The same command continues."""


def run_experiment(
    experiment: Experiment,
    folder: Path,
    *,
    workers: int | None = None,
    replay: Path | None = None,
    on_cell: OnCell = lambda cell, result, number, count: None,
) -> list[CellResult]:
    """Run all cells of the experiment once, and store them in `folder`.

    With `replay`, replies are read from this recording, and a prompt that differs from the recorded
    one is an `InputError`. A run that cannot be made is refused before the first run. Raises
    `InterruptedExperimentError` after Ctrl-C.
    """
    cells, results = experiment.cells, []
    _require_possible(cells, folder, replay)
    with kept_processes() if _shares(experiment) else nullcontext():
        for number, cell in enumerate(cells, 1):
            project = project_of(cell, experiment, folder)
            settings = cell.settings
            if cell.source is not None:
                source = _run(cell.source.workload, cell.source.settings, project, workers, replay)
                if _has_schedule(source, project):
                    settings = dataclasses.replace(settings, schedule_from=source)
            run_id = _run(cell.workload, settings, project, workers, replay)
            result = result_of(cell, run_id, project)
            results.append(result)
            on_cell(cell, result, number, len(cells))
    return results


def _require_possible(cells: Sequence[Cell], folder: Path, replay: Path | None) -> None:
    """Raise the error of the first run that cannot be made; seeds make no difference."""
    runs = (run for cell in cells for run in (cell, cell.source) if run is not None)
    for run in {(run.workload, run.arm): run for run in runs}.values():
        require_possible(run.workload, run.settings, project=folder, replay=replay)


def _has_schedule(run_id: str, project: Path) -> bool:
    """Whether a run found a faster kernel. If not, the arm's run begins without a schedule."""
    with closing(open_project(project)) as storage:
        best = storage.history(run_id).best
    return best is not None and best.candidate.plan is not None


def _run(
    workload: str, settings: Settings, project: Path, workers: int | None, replay: Path | None
) -> str:
    """The finished run with these settings, which is made if the project has none."""
    found = finished_run(workload, settings, project=project)
    if found is not None:
        return found.id
    search = partial(
        optimize,
        workload,
        settings,
        project=project,
        workers=workers,
        on_event=_Points(project),
        replay=replay,
        strict_replay=True,
    )
    summary = search()
    if summary.is_out_of_time:  # the search is over, and only its result is not confirmed yet
        summary = search()
    if summary.status == "interrupted":
        raise InterruptedExperimentError
    return summary.run_id


def project_of(cell: Cell, experiment: Experiment, folder: Path) -> Path:
    """The project of a cell's run, which is the common folder or a separate folder of the arm.

    Runs of one project use each other's outcomes and replies of models.
    """
    if _shares(experiment):
        return folder
    project = folder / "arms" / cell.arm
    project.mkdir(parents=True, exist_ok=True)
    return project


def _shares(experiment: Experiment) -> bool:
    """Whether runs may reuse what other runs have computed: not if the budget limits something that
    such reuse saves."""
    budget = experiment.budget
    return budget == Budget(budget.evaluations)


def result_of(cell: Cell, run_id: str, folder: Path) -> CellResult:
    """A cell's result, from the stored run in the project `folder`."""
    with closing(open_project(folder)) as storage:
        run, summary = storage.run(run_id), summary_of(storage, run_id)
        latencies = [trial.latency for trial in storage.history(run_id)]
    calls = model_calls(run_id, project=folder)
    return CellResult(
        workload=cell.workload,
        arm=cell.arm,
        seed=cell.seed,
        run_id=run_id,
        status=run.status,
        reason=run.stop_reason,
        unit=summary.unit,
        quantity=summary.quantity,
        start=summary.baseline_latency,
        best=summary.best_latency,
        evaluations=summary.evaluations,
        cached=summary.cached_evaluations,
        calls=len(calls),
        usd=sum(call.counted_usd for call in calls),
        seconds=run.wall_s,
        points=tuple(_curve(run, latencies, folder)),
    )


def _curve(run: RunRecord, latencies: list[float | None], folder: Path) -> Iterator[Point]:
    """The best latency after each trial, in their order. The amounts spent are those of the last
    line up to this trial.
    """
    spent: dict[int, dict[str, Any]] = {
        line["trial"]: line
        for line in read_lines(folder / POINTS)
        if line.get("run") == run.id and all(type(line.get(f)) in (int, float) for f in _AMOUNTS)
    }
    best, calls, usd, seconds = None, 0, 0.0, 0.0
    for index, latency in enumerate(latencies):
        if latency is not None and (best is None or latency < best):
            best = latency
        if (line := spent.get(index)) is not None:
            calls, usd = max(calls, line["calls"]), max(usd, line["usd"])
            seconds = max(seconds, line["seconds"])
        yield Point(index + 1, calls, usd, seconds, best)


class _Points:
    """A listener that writes the amounts that were spent after each evaluation of a run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._run_id = ""
        self._seconds, self._began = 0.0, monotonic()
        self._calls, self._usd = 0, 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._run_id = event.run.id
            self._seconds, self._began = event.run.wall_s, monotonic()
            before = model_calls(event.run.id, project=self._folder)
            self._calls, self._usd = len(before), sum(call.counted_usd for call in before)
        elif isinstance(event, Called):
            self._calls += 1
            self._usd += event.call.counted_usd
        elif isinstance(event, Evaluated):
            trial = event.trial
            line = {
                "run": self._run_id,
                "trial": trial.index,
                "latency": trial.latency if isinstance(trial.outcome, Measured) else None,
                "calls": self._calls,
                "usd": self._usd,
                "seconds": round(self._seconds + monotonic() - self._began, 3),
                "load": round(os.getloadavg()[0], 2),
            }
            append(self._folder / POINTS, [line])
