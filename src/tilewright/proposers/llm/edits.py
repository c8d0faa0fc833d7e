"""Search/replace edits: reads them from a reply and applies them to a source.

The time for both is proportional to the length of the texts and to the number of edits.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tilewright.proposers.llm.replies import ReplyFailed

MAX_EDITS = 100
"""Maximum number of edits in one reply."""

_MARK = re.compile(
    r"^(?:<{5,}+[ \t]*+(SEARCH)|(={5,}+)|>{5,}+[ \t]*+(REPLACE))[ \t]*+$\n?", re.MULTILINE
)


def read_edits(text: str) -> list[tuple[str, str]]:
    """Pairs of the lines to find and the lines that replace them, in their order in the reply."""
    edits: list[tuple[str, str]] = []
    search = divider = None
    for mark in _MARK.finditer(text):
        if mark[1] and search is None:
            search = mark
        elif mark[2] and search is not None and divider is None:
            divider = mark
        elif mark[3] and search is not None and divider is not None:
            edits.append((text[search.end() : divider.start()], text[divider.end() : mark.start()]))
            search = divider = None
    return edits


def apply_edits(source: str, edits: list[tuple[str, str]]) -> str | ReplyFailed:
    """The source with all edits made, one after the other.

    The source must contain the lines of each edit exactly once. If it does not contain them
    literally, lines are compared without their indentation.
    """
    if len(edits) > MAX_EDITS:
        return ReplyFailed(
            "edit_mismatch", f"{len(edits)} edits, but at most {MAX_EDITS} are allowed"
        )
    for number, (old, new) in enumerate(edits, 1):
        if not old.strip():
            return ReplyFailed("edit_mismatch", f"edit {number} has an empty search text")
        places = _places(source, old, str.rstrip) or _places(source, old, str.strip)
        if len(places) != 1:
            found = "several" if places else "no"
            return ReplyFailed(
                "edit_mismatch", f"edit {number} matches {found} places instead of one"
            )
        lines = source.splitlines(keepends=True)
        first = places[0]
        lines[first : first + len(old.splitlines())] = [new]
        source = "".join(lines)
    return source


def _places(source: str, old: str, form: Callable[[str], str]) -> list[int]:
    """Up to two line numbers (from 0) at which the source contains the lines of `old`, compared in
    this form.
    """
    have, want = (
        "\n" + "".join(form(line) + "\n" for line in text.splitlines()) for text in (source, old)
    )
    places: list[int] = []
    at = have.find(want)
    while at >= 0 and len(places) < 2:
        places.append(have.count("\n", 0, at))
        at = have.find(want, at + 1)
    return places
