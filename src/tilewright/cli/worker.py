"""`tilewright worker`: evaluates for a search on another machine."""

from __future__ import annotations

from pathlib import Path

import typer

from tilewright.cli.options import NoColor, UnusedProject


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("worker")(worker)


def worker(project: UnusedProject = Path(), no_color: NoColor = False) -> None:
    """Evaluate candidates for a search on another machine, over standard input and output.

    `tilewright optimize TASK --host HOST` starts it by ssh. Each line of the input is a request in
    JSON, each line of the output a reply. It ends with the input.
    """
    import sys

    from tilewright.evaluation.relay import relay

    relay(sys.stdin.buffer, sys.stdout.buffer)
