"""Unified diffs between a kernel and its parent, cut to a size a page can carry."""

from __future__ import annotations

import difflib

CONTEXT_LINES = 3


def unified_diff(before: str, after: str, max_characters: int) -> tuple[str, ...]:
    """Lines of a unified diff without file names; the last line says how many were cut.

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
    """`text`, or its beginning and end with a note between them when it is too long."""
    if len(text) <= max_characters:
        return text
    half = max_characters // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters not shown ...]\n{text[-half:]}"
