"""Consoles: results on stdout, progress and notes on stderr.

Printed texts may come from kernels, models, compilers and bundles of other people. Control
characters are therefore removed before printing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from tilewright.core.text import plain_text

PLAIN_WIDTH = 80
"""Number of columns of tables if the output is not a terminal (logs, pipes)."""


class PlainConsole(Console):
    """A console that removes control characters from texts. Only the console itself produces
    colours and cursor movements.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of a renderable object, with plain text."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield segment._replace(text=plain_text(segment.text))

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects. In logs and pipes, sentences are not wrapped, so that grep finds them."""
        if not self.is_terminal and all(isinstance(one, (str, Text)) for one in objects):
            options.setdefault("soft_wrap", True)
        super().print(*objects, **options)


def say(text: str, *, err: bool = False) -> None:
    """Print a line of plain text."""
    typer.echo(plain_text(text), err=err)


def write_out(text: str) -> None:
    """Write a source to stdout: byte for byte into a pipe or file, as plain text on a terminal."""
    sys.stdout.write(plain_text(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def results() -> Console:
    """The console for results, which is stdout."""
    return _console(stderr=False)


def notes() -> Console:
    """The console for progress, which is stderr, so that stdout can be used in a pipe."""
    return _console(stderr=True)


def _console(stderr: bool) -> Console:
    console = PlainConsole(stderr=stderr, highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console
