"""`tilewright runs list|show|resume`: the runs of a project folder."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli import search_options as options
from tilewright.cli.options import Json, NoColor, Project, RunName, show_help_without_command
from tilewright.cli.searching import Outputs, finish, search
from tilewright.core.config import Settings

if TYPE_CHECKING:
    from tilewright.search.events import OnEvent
    from tilewright.search.summary import Summary

app = typer.Typer(
    help="List, show and resume the runs of a project folder.",
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _runs(context: typer.Context) -> None:
    show_help_without_command(context)


@app.command("list")
def list_runs(project: Project = Path(), no_color: NoColor = False) -> None:
    """List all runs, newest first."""
    from rich.table import Table

    from tilewright.cli.console import results
    from tilewright.report.text import duration, moment, ratio
    from tilewright.run import open_project, standing
    from tilewright.search.summary import summarize

    table = Table("run", "started", box=None, pad_edge=False)
    table.add_column("workload", overflow="fold")
    table.add_column("status")
    for heading in ("seed", "evaluations", "speedup", "wall time"):
        table.add_column(heading, justify="right")
    with closing(open_project(project)) as storage:
        for run in storage.runs():
            summary = summarize(run, storage.history(run.id))
            table.add_row(
                run.id,
                moment(run.created_at),
                run.task,
                standing(project, run),
                str(summary.seed),
                str(summary.evaluations),
                ratio(summary.speedup),
                duration(run.wall_s),
            )
    results().print(table)


@app.command("show")
def show(
    run: RunName,
    trials: Annotated[
        bool,
        typer.Option("--trials", help="Also list every trial: what was expected, and measured."),
    ] = False,
    project: Project = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Show one run: the result so far and the winning schedule step by step."""
    from tilewright.cli.console import results
    from tilewright.cli.summary_table import trial_table
    from tilewright.run import open_project
    from tilewright.search.summary import summarize
    from tilewright.session import baselines, confirmed, left_alone

    outputs = Outputs(json)
    outputs.check()
    with closing(open_project(project)) as storage:
        record = storage.run(run)
        history = storage.history(record.id)
        summary = summarize(
            record,
            history,
            baselines(storage, record.id),
            confirmed(storage, record.id),
            left_alone(storage, record.id),
        )
    if trials:
        results().print(trial_table(record, history))
    finish(summary, project, outputs)


@app.command("resume")
def resume(
    run: RunName,
    jobs: options.Jobs = None,
    project: Project = Path(),
    json: Json = None,
    report: options.Report = None,
    no_color: NoColor = False,
) -> None:
    """Go on with a run that was interrupted or killed; nothing is evaluated twice."""
    from tilewright.run import open_project
    from tilewright.run import resume as resume_run

    with closing(open_project(project)) as storage:
        record = storage.run(run)
    settings = Settings.from_recorded(record.settings)

    def start(on_event: OnEvent) -> Summary:
        return resume_run(record.id, project=project, workers=jobs, on_event=on_event)

    search(start, settings, project, Outputs(json, report))
