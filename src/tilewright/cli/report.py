"""`tilewright report`: a run as one HTML file."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import NoColor, Project, RunName
from tilewright.cli.output import check_outputs, write_text


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("report")(report)


def report(
    run: RunName,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="tilewright-RUN.html unless given."),
    ] = None,
    project: Project = Path(),
    no_color: NoColor = False,
) -> None:
    """Write a run's report: one HTML file that needs no network.

    Speedup against evaluations, the beam as a tree with every plan and diff, the winning
    schedule step by step, where cycles go, what models cost, and how to reproduce it. Works on
    unfinished runs.
    """
    from tilewright.cli.searching import command_line
    from tilewright.models import model_calls
    from tilewright.report.static import render_report
    from tilewright.run import open_project
    from tilewright.session import baselines, left_alone

    check_outputs(output=output)
    with closing(open_project(project)) as storage:
        record = storage.run(run)
        history = storage.history(record.id)
        compared, untouched = baselines(storage, record.id), left_alone(storage, record.id)
    calls = model_calls(record.id, project=project)
    document = render_report(record, history, command_line(record), compared, untouched, calls)
    path = output or Path(f"tilewright-{record.id}.html")
    write_text(path, document)
    typer.echo(f"wrote {path}", err=True)
