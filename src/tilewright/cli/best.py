"""`tilewright best`: the best kernel of a run."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import Json, NoColor, Project, RunName
from tilewright.cli.output import check_outputs, write_json, write_text
from tilewright.core.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("best")(best)


def best(
    run: RunName,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write the kernel to this file; by default the command prints the kernel.",
        ),
    ] = None,
    project: Project = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Print the best kernel of a run, or write it to a file.

    The printed source is exactly the source that was checked and measured.
    """
    from tilewright.cli.console import write_out
    from tilewright.run import open_project

    check_outputs(output=output, json=json)
    with closing(open_project(project)) as storage:
        record = storage.run(run)
        trial = storage.history(record.id).best
    if trial is None:
        raise InputError(
            f"run {record.id} has no correct kernel yet. `tilewright runs show {record.id}` shows "
            "why."
        )
    if output:
        write_text(output, trial.candidate.source)
        typer.echo(f"wrote trial {trial.index} of run {record.id} to {output}", err=True)
    else:
        write_out(trial.candidate.source)
    write_json(
        json,
        {
            "run": record.id,
            "trial": trial.index,
            "candidate": trial.candidate.id,
            "latency": trial.latency,
            "source": trial.candidate.source,
        },
    )
