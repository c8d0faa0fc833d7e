"""`tilewright runs compare A B`: compares two runs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.options import Json, NoColor, Project
from tilewright.cli.output import check_outputs, write_json
from tilewright.cli.task_names import shown_task

if TYPE_CHECKING:
    from tilewright.core.records import History, RunRecord
    from tilewright.search.summary import Summary

_Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="The id of a run, the first characters of the id, or 'latest'."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("compare")(compare)


def compare(
    first: _Run,
    second: _Run,
    project: Project = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Compare the settings and the results of two runs."""
    from rich.table import Table

    from tilewright.cli.console import results
    from tilewright.core.errors import InputError
    from tilewright.core.gains import is_gain, noise_of_speedup
    from tilewright.report.text import ratio
    from tilewright.run import open_project
    from tilewright.search.summary import summarize

    check_outputs(json=json)
    with closing(open_project(project)) as storage:
        runs = [storage.run(name) for name in (first, second)]
        if runs[0].id == runs[1].id:
            raise InputError(
                f"{first} and {second} are both the run {runs[0].id}. Give two different runs; "
                "`tilewright runs list` lists them."
            )
        histories = [storage.history(run.id) for run in runs]
    summaries = [summarize(run, history) for run, history in zip(runs, histories, strict=True)]
    rows = {**_results(summaries, histories, project), **_differences(*runs)}
    table = Table("", *(run.id for run in runs), box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.overflow = "fold"
    for name, values in rows.items():
        table.add_row(name, *values)
    results().print(table)
    faster = _faster(*summaries)
    if faster is not None:
        said = f"the best kernel of {runs[1].id} is {ratio(faster)} as fast as {runs[0].id}'s"
        noise = noise_of_speedup(*(history.best for history in histories))
        if faster != 1 and not is_gain(max(faster, 1 / faster), noise):
            said += ", which is within the measurement noise"
        typer.echo(said)
    write_json(json, {"rows": rows, "runs": [r.id for r in runs], "second_over_first": faster})


def _results(
    summaries: list[Summary], histories: list[History], project: Path
) -> dict[str, list[str]]:
    from tilewright.report.text import duration, gain, number, words

    def steps(history: History) -> str:
        chain = history.lineage(history.best.candidate.id) if history.best else []
        plans = [trial.candidate.plan for trial in chain]
        return ", ".join(words(plan.option) for plan in plans if plan) or "-"

    return {
        "workload": [shown_task(s.workload, project) for s in summaries],
        "best": [f"{number(s.best_latency)} {s.quantity} {s.unit}".strip() for s in summaries],
        "speedup": [gain(s.speedup, s.noise) for s in summaries],
        "steps": [steps(history) for history in histories],
        "evaluations": [str(s.evaluations) for s in summaries],
        "wall time": [duration(s.wall_s) for s in summaries],
        "ended because": [s.stop_reason or s.status for s in summaries],
    }


def _differences(first: RunRecord, second: RunRecord) -> dict[str, list[str]]:
    """The settings and versions in which the runs differ; "-" for values that a run did not
    record.
    """
    found = {}
    pairs = ((first.settings, second.settings), (first.versions, second.versions))
    for one, other in pairs:
        for name in sorted({*one, *other}):
            values = [side.get(name, "-") for side in (one, other)]
            if values[0] != values[1]:
                label, unit = _LIMITS.get(name, (name.replace("_", " "), ""))
                found[label] = [_with_unit(value, unit) for value in values]
    return found


_LIMITS = {
    "max_wall_s": ("time limit", "s"),
    "max_usd": ("cost limit", "USD"),
    "max_evaluations": ("limit of evaluations", ""),
    "max_tokens": ("limit of tokens", ""),
    "max_calls": ("limit of model calls", ""),
    "compile_timeout_s": ("compile timeout", "s"),
    "simulation_timeout_s": ("simulation timeout", "s"),
}
"""Names in words and units of settings, by the name with which a run stores them."""


def _with_unit(value: object, unit: str) -> str:
    """The value of a setting; "none" for a limit that was not set."""
    if value is None:
        return "none"
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return shown if shown == "-" else f"{shown} {unit}".rstrip()


def _faster(first: Summary, second: Summary) -> float | None:
    """The speedup of the second run's best kernel over that of the first; None if they are not
    comparable.
    """
    comparable = (first.workload, first.unit) == (second.workload, second.unit)
    if not comparable or not first.best_latency or not second.best_latency:
        return None
    return first.best_latency / second.best_latency
