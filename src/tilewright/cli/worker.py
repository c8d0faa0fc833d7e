"""`tilewright worker`: evaluates candidates for a search that runs on another machine."""

from __future__ import annotations

from pathlib import Path

import typer

from tilewright.cli.options import NoColor, UnusedProject
from tilewright.core.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("worker")(worker)


def worker(project: UnusedProject = Path(), no_color: NoColor = False) -> None:
    """Evaluate candidates that a search on another machine sends.

    `tilewright optimize TASK --host HOST` starts this command on HOST by ssh, so you need not call
    it yourself. The command reads requests from standard input and writes replies to standard
    output, each as one line of JSON, until the input ends.
    """
    import sys

    from tilewright.evaluation.relay import relay

    if sys.stdin.isatty():
        raise InputError(
            "standard input is a terminal, so no requests would arrive. Run `optimize TASK --host "
            "HOST` on the machine of the search. `optimize` starts the worker on HOST by ssh."
        )

    relay(sys.stdin.buffer, sys.stdout.buffer)
