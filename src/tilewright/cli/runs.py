"""`tilewright runs list|show|resume|...`: the runs of a project folder."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli import runs_compare, runs_export, runs_labels
from tilewright.cli import search_options as options
from tilewright.cli.options import Json, NoColor, Project, RunName
from tilewright.cli.output import check_outputs, write_json
from tilewright.cli.searching import Outputs, finish, search
from tilewright.cli.task_names import shown_task
from tilewright.core.config import Settings

if TYPE_CHECKING:
    from tilewright.search.events import OnEvent
    from tilewright.search.summary import Summary

app = typer.Typer(
    help="List, show, resume, compare, export, label and delete runs.",
    rich_markup_mode=None,
)


@app.command("list")
def list_runs(project: Project = Path(), json: Json = None, no_color: NoColor = False) -> None:
    """List the runs of a project, newest first."""
    from rich.table import Table

    from tilewright.cli.console import results
    from tilewright.report.text import duration, gain, moment
    from tilewright.run import open_project, standing
    from tilewright.run_metadata import label_of
    from tilewright.search.summary import summarize

    check_outputs(json=json)
    console = results()
    this_year = f"{datetime.now(UTC).year}-"
    table = Table("run", box=None, pad_edge=False)
    rows: list[dict[str, object]] = []
    table.add_column("started (UTC)", no_wrap=True)
    table.add_column("workload", overflow="fold")
    table.add_column("status", no_wrap=True)
    for heading in ("trials", "speedup", "time"):
        table.add_column(heading, justify="right")
    with closing(open_project(project)) as storage:
        for run in storage.runs():
            summary = summarize(run, storage.history(run.id))
            label = label_of(storage, run.id)
            rows.append(
                {
                    "run": run.id,
                    "started": run.created_at,
                    "workload": run.task,
                    "status": standing(project, run),
                    "seed": summary.seed,
                    "evaluations": summary.evaluations,
                    "speedup": summary.speedup,
                    "is_faster": summary.is_faster,
                    "wall_s": run.wall_s,
                    "tags": list(label.tags),
                    "note": label.text,
                }
            )
            table.add_row(
                run.id,
                moment(run.created_at).removesuffix(" UTC").removeprefix(this_year),
                " ".join(
                    [_shown(run.task, project, console.width), *(f"#{tag}" for tag in label.tags)]
                ),
                standing(project, run),
                str(summary.evaluations),
                gain(summary.speedup, summary.noise),
                duration(run.wall_s),
            )
    if rows:
        console.print(table)
    else:
        typer.echo(
            f"{project.resolve()} has no runs yet. `tilewright optimize` starts one.", err=True
        )
    write_json(json, {"runs": rows})


_NARROW = 100
"""Columns of a terminal below which long names of workloads do not fit into one line."""
_WORKLOAD_COLUMNS = 16


def _shown(task: str, project: Path, width: int) -> str:
    """The name of a task. On a narrow terminal, a long name continues in a second line after its
    target.
    """
    name = shown_task(task, project)
    if width < _NARROW and len(name) > _WORKLOAD_COLUMNS:
        return name.replace(":", ":\n", 1)
    return name


@app.command("show")
def show(
    run: RunName,
    trials: Annotated[
        bool,
        typer.Option(
            "--trials",
            help="Also list every trial with its expected and its measured latency.",
        ),
    ] = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Print plans in full, and every turn of a model and every tool call of an agent.",
        ),
    ] = False,
    project: Project = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Show the result of a run and the steps that led to it."""
    from tilewright.cli.console import results, say
    from tilewright.cli.summary_table import trial_table
    from tilewright.run import open_project
    from tilewright.run_metadata import label_of, summary_of

    outputs = Outputs(json)
    outputs.check()
    with closing(open_project(project)) as storage:
        record = storage.run(run)
        history = storage.history(record.id)
        label = label_of(storage, record.id)
        summary = summary_of(storage, record.id)
    if label.tags:
        say(f"tags: {', '.join(label.tags)}")
    if label.text:
        say(f"note: {label.text}")
    if trials:
        results().print(trial_table(record, history))
    finish(summary, project, outputs, full)


@app.command("resume")
def resume(
    context: typer.Context,
    run: RunName,
    jobs: options.Jobs = None,
    executor: options.Executor = "local",
    project: Project = Path(),
    json: Json = None,
    report: options.Report = None,
    events: options.Events = None,
    no_color: NoColor = False,
) -> None:
    """Continue a run that was interrupted or killed.

    Finished evaluations are not repeated.
    """
    from tilewright.run import open_project
    from tilewright.run import resume as resume_run

    with closing(open_project(project)) as storage:
        record = storage.run(run)
    settings = Settings.from_recorded(record.settings)

    def start(on_event: OnEvent) -> Summary:
        return resume_run(
            record.id,
            project=project,
            workers=jobs,
            on_event=on_event,
            executor=executor,
            began=context.obj,
        )

    search(start, settings, project, Outputs(json, report, events=events))


for module in (runs_compare, runs_export, runs_labels):
    module.register(app)
