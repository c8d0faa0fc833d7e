"""Unified diffs between a kernel and its parent, shortened for a page."""

from __future__ import annotations

import difflib

CONTEXT_LINES = 3


def unified_diff(before: str, after: str, max_characters: int) -> tuple[str, ...]:
    """The lines of a unified diff without file names. If lines were left out, the last line gives
    their number.

    Each line starts with "@", " ", "-" or "+" as in `diff -u`.
    """
    lines = list(
        difflib.unified_diff(before.splitlines(), after.splitlines(), n=CONTEXT_LINES, lineterm="")
    )[2:]
    kept: list[str] = []
    room = max_characters
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return (*kept, f"@@ {len(lines) - len(kept)} more lines are not shown @@")
        kept.append(line)
    return tuple(kept)


def cut(text: str, max_characters: int) -> str:
    """`text`, or if it is too long its beginning and its end, with a note between them."""
    if len(text) <= max_characters:
        return text
    half = max_characters // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters not shown ...]\n{text[-half:]}"
