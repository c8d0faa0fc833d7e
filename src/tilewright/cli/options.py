"""Options several commands share, declared once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


def _forget_colors(wanted: bool) -> None:
    """The environment variable reaches rich, typer and every child alike."""
    if wanted:
        os.environ["NO_COLOR"] = "1"


def show_help_without_command(context: typer.Context) -> None:
    """A group called by itself explains itself."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


NoColor = Annotated[
    bool,
    typer.Option(
        "--no-color",
        callback=_forget_colors,
        is_eager=True,
        help="No colours; the NO_COLOR variable does the same.",
    ),
]
Project = Annotated[
    Path,
    typer.Option(
        "--project",
        metavar="DIR",
        help="Folder whose .tilewright/ keeps the runs; the current one unless given.",
    ),
]
Json = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write the result as JSON, whole or not at all."),
]
RunName = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run's id, its first characters, or 'latest'."),
]
