"""Consoles: results on stdout, progress and notes on stderr."""

from __future__ import annotations

from rich.console import Console

PLAIN_WIDTH = 120
"""Columns where there is no terminal to ask (logs, pipes)."""


def results() -> Console:
    """Where tables and answers go."""
    return _console(stderr=False)


def notes() -> Console:
    """Where progress goes, so that stdout can be piped."""
    return _console(stderr=True)


def _console(stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console
