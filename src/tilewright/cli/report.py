"""`tilewright report`: a run as one HTML file."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import Json, NoColor, Project, RunName
from tilewright.cli.output import check_outputs, write_json, write_text


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("report")(report)


def report(
    run: RunName,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write the report to this HTML file; by default tilewright-RUN.html.",
        ),
    ] = None,
    project: Project = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Write the report of a run as one HTML file.

    The report shows how the best latency decreased during the run and which steps led to the best
    kernel. The report also shows every candidate with its plan and its changes, where the time
    goes, what the calls to models cost, and how to reproduce the result. The file can be read
    without a network connection. The run need not be finished.
    """
    from tilewright.cli.searching import command_line
    from tilewright.core.records import History
    from tilewright.core.run_notes import AgentWork
    from tilewright.core.tasks import brief_of
    from tilewright.models import model_calls, turns_taken
    from tilewright.report.static import render_report
    from tilewright.run import open_project
    from tilewright.run_metadata import baselines, left_alone
    from tilewright.storage.project import open_overview

    check_outputs(output=output, json=json)
    with closing(open_project(project)) as storage:
        record = storage.run(run)
        with closing(open_overview(project)) as overview:
            sample = overview.sample(record.id)
            shown = overview.whole_trials(record.id, sample.indices) if sample else None
        history = storage.history(record.id) if shown is None else History(shown)
        compared, untouched = baselines(storage, record.id), left_alone(storage, record.id)
        agents = storage.kept(record.id, AgentWork)
    calls = model_calls(record.id, project=project)
    document = render_report(
        record,
        history,
        command_line(record),
        compared,
        untouched,
        calls,
        brief_of(record),
        turns_taken(record.id, history, project=project),
        agents,
        sample,
    )
    path = output or Path(f"tilewright-{record.id}.html")
    write_text(path, document)
    typer.echo(f"wrote {path}", err=True)
    write_json(json, {"run": record.id, "file": str(path)})
