"""`tilewright worker`: evaluates for a search on another machine."""

from __future__ import annotations

from pathlib import Path

import typer

from tilewright.cli.options import NoColor, UnusedProject


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("worker")(worker)


def worker(project: UnusedProject = Path(), no_color: NoColor = False) -> None:
    """Evaluate candidates for a search on another machine.

    You need not call it: `tilewright optimize TASK --host HOST` starts it on HOST by ssh. It reads
    requests from standard input and writes replies to standard output, one JSON object in each
    line, until the input ends.
    """
    import sys

    from tilewright.evaluation.relay import relay

    relay(sys.stdin.buffer, sys.stdout.buffer)
