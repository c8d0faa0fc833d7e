"""Consoles: results on stdout, progress and notes on stderr.

What is printed may come from kernels, models, compilers and other people's bundles: none of it
reaches a terminal as anything but text.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from tilewright.core.text import plain_text

PLAIN_WIDTH = 120
"""Columns where there is no terminal to ask (logs, pipes)."""


class PlainConsole(Console):
    """A console that prints plain text; colours and cursor movements are its own."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of anything that is printed."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield segment._replace(text=plain_text(segment.text))


def say(text: str, *, err: bool = False) -> None:
    """Print a line of plain text."""
    typer.echo(plain_text(text), err=err)


def write_out(text: str) -> None:
    """Write a source to stdout: byte for byte into a pipe or file, as plain text on a terminal."""
    sys.stdout.write(plain_text(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def results() -> Console:
    """Where tables and answers go."""
    return _console(stderr=False)


def notes() -> Console:
    """Where progress goes, so that stdout can be piped."""
    return _console(stderr=True)


def _console(stderr: bool) -> Console:
    console = PlainConsole(stderr=stderr, highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console
