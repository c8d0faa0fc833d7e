"""`tilewright best`: the best kernel of a run."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import NoColor, Project, RunName
from tilewright.cli.output import check_outputs, write_text
from tilewright.core.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("best")(best)


def best(
    run: RunName,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write here instead of to stdout."),
    ] = None,
    project: Project = Path(),
    no_color: NoColor = False,
) -> None:
    """Write the best kernel of a run, exactly as it was checked and measured."""
    from tilewright.run import open_project

    check_outputs(output=output)
    with closing(open_project(project)) as storage:
        record = storage.run(run)
        trial = storage.history(record.id).best
    if trial is None:
        raise InputError(
            f"run {record.id} has no correct kernel yet: `tilewright runs show {record.id}` "
            "says what happened."
        )
    if output:
        write_text(output, trial.candidate.source)
        typer.echo(f"wrote trial {trial.index} of run {record.id} to {output}", err=True)
    else:
        typer.echo(trial.candidate.source, nl=False)
