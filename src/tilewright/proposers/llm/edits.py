"""Search/replace edits: reads them from a reply and applies them to a source."""

from __future__ import annotations

import re
from collections.abc import Callable

from tilewright.proposers.llm.replies import ReplyFailed

_EDIT = re.compile(
    r"^<{5,}[ \t]*SEARCH[ \t]*\n(.*?)^={5,}[ \t]*\n(.*?)^>{5,}[ \t]*REPLACE[ \t]*$",
    re.DOTALL | re.MULTILINE,
)


def read_edits(text: str) -> list[tuple[str, str]]:
    """Pairs of lines to find and lines to put in their place, in the order given."""
    return [(found[1], found[2]) for found in _EDIT.finditer(text)]


def apply_edits(source: str, edits: list[tuple[str, str]]) -> str | ReplyFailed:
    """The source with all edits made, one after the other.

    Each one's lines must stand in the source exactly once; where they do not stand there letter for
    letter, they are compared without their indentation.
    """
    for number, (old, new) in enumerate(edits, 1):
        if not old.strip():
            return ReplyFailed("edit_mismatch", f"edit {number} searches for nothing")
        places = _places(source, old, str.rstrip) or _places(source, old, str.strip)
        if len(places) != 1:
            return ReplyFailed(
                "edit_mismatch", f"edit {number} fits {len(places)} places instead of one"
            )
        lines = source.splitlines(keepends=True)
        first = places[0]
        lines[first : first + len(old.splitlines())] = [new]
        source = "".join(lines)
    return source


def _places(source: str, old: str, form: Callable[[str], str]) -> list[int]:
    """Line numbers (from 0) where the lines of `old` stand, each compared in this form."""
    have = [form(line) for line in source.splitlines()]
    want = [form(line) for line in old.splitlines()]
    return [i for i in range(len(have) - len(want) + 1) if have[i : i + len(want)] == want]
