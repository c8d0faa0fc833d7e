"""Options that several commands share."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

STARTED_BY = "TILEWRIGHT_COMMAND"
"""The environment variable in which the script `tw` says how it was called."""


def _forget_colors(wanted: bool) -> None:
    """Disable colours through the environment variable, which rich, typer and child processes
    read.
    """
    if wanted:
        os.environ["NO_COLOR"] = "1"


def show_help_without_command(context: typer.Context) -> None:
    """Print the help of a group of commands that is called without a command."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


NoColor = Annotated[
    bool,
    typer.Option(
        "--no-color",
        callback=_forget_colors,
        is_eager=True,
        help="Print without colours, as with the environment variable NO_COLOR.",
    ),
]
Project = Annotated[
    Path,
    typer.Option(
        "--project",
        metavar="DIR",
        help="Folder whose subfolder .tilewright/ stores the runs; by default the current folder.",
    ),
]
UnusedProject = Annotated[
    Path,
    typer.Option(
        "--project",
        metavar="DIR",
        help="Has no effect, because this command uses no project.",
    ),
]
Port = Annotated[
    int,
    typer.Option(
        "--port",
        metavar="PORT",
        min=0,
        max=65535,
        help="Port to listen on; 0 selects a free port.",
    ),
]
Json = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Also write the result to this JSON file."),
]


def _absolute(target: str | None) -> str | None:
    """Make the path of a file absolute, because a run may be resumed from another folder."""
    return str(Path(target).resolve()) if target and target.endswith(".toml") else target


TargetName = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="NAME|FILE",
        callback=_absolute,
        help="Use this target instead of the workload's own: a name that `tilewright targets` "
        "lists, or a .toml file that describes another configuration (docs/targets.md).",
    ),
]
RunName = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="The id of a run, the first characters of the id, or 'latest' for the newest run.",
    ),
]


_INSTALL_EXTRA = re.compile(
    r"""install it with:? `?pip install ['"]tilewright\[(?:tune|serve|cluster|agent|openai|"""
    r"""anthropic|google|bedrock)\]['"]`?""",
    re.IGNORECASE,
)
"""The instruction in messages to install an extra, which the script `tw` installs automatically."""


INSTALLED_AUTOMATICALLY = "installs what is missing with the first command that needs it"


def as_started(text: str) -> str:
    """The text, in which commands in backticks are written so that they can be pasted."""
    if STARTED_BY in os.environ:
        text = _INSTALL_EXTRA.sub(
            f"`{command_text()}` {INSTALLED_AUTOMATICALLY}",
            text,
        )
    return text.replace("`tilewright ", f"`{command_text()} ")


def command_text(*words: str) -> str:
    """A command line that can be pasted into the shell that this process was started from."""
    return shlex.join([os.environ.get(STARTED_BY, "tilewright"), *words])
