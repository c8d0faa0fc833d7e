"""Wraps sentences between words on a terminal; logs and pipes get them unchanged."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, TextIO

import typer

from tilewright.core.text import plain_text

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = re.compile(r"ok  \S+ +|(?:\S+(?: \S+){0,3}  +)+")
"""The columns of a row before its text: those of `check`, or any that two or more spaces end."""


def say_sentence(text: str) -> None:
    """Print a paragraph of plain text on stdout, wrapped between words on a terminal."""
    typer.echo(between_words(plain_text(text), sys.stdout))


def print_sentences(console: Console, text: str, style: str = "") -> None:
    """Print a text on a console for results, wrapped between words on a terminal."""
    from rich.text import Text

    console.print(Text(between_words(text, sys.stdout), style=style), soft_wrap=True)


def between_words(text: str, stream: TextIO) -> str:
    """The lines of a text, wrapped between words if the stream is a terminal and unchanged
    elsewhere. Later lines of a row such as `ok  kernel    agrees` are indented as its text, and
    later lines of an indented line as that line.
    """
    if not is_terminal(stream):
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(
        line
        if len(line) <= width
        else textwrap.fill(
            line,
            width,
            subsequent_indent=" " * _indent(line),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.split("\n")
    )


def is_terminal(stream: TextIO) -> bool:
    """Whether a person reads the stream."""
    return stream.isatty()


def _indent(line: str) -> int:
    """Column of the text after the columns of a row, or after the indentation of a line."""
    found = _COLUMNS.match(line)
    return found.end() if found else len(line) - len(line.lstrip(" "))
