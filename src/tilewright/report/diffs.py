"""Unified diffs between a kernel and its parent, shortened for a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.core.line_changes import LineChanges

CONTEXT_LINES = 3


def unified_diff(before: str, after: str, max_characters: int) -> tuple[str, ...]:
    """The lines of a unified diff without file names. If lines were left out, the last line gives
    their number.

    Each line starts with "@", " ", "-" or "+" as in `diff -u`.
    """
    lines = list(_lines(before.splitlines(), after.splitlines()))
    kept: list[str] = []
    room = max_characters
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return (*kept, f"@@ {len(lines) - len(kept)} more lines are not shown @@")
        kept.append(line)
    return tuple(kept)


def _lines(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    for group in LineChanges(before, after).get_grouped_opcodes(CONTEXT_LINES):
        (_, first, _, begin, _), (_, _, last, _, end) = group[0], group[-1]
        yield f"@@ -{_range(first, last)} +{_range(begin, end)} @@"
        for what, i, j, k, m in group:
            if what == "equal":
                yield from (f" {line}" for line in before[i:j])
                continue
            yield from (f"-{line}" for line in before[i:j])
            yield from (f"+{line}" for line in after[k:m])


def _range(first: int, last: int) -> str:
    """Lines as `diff -u` names them."""
    if last - first == 1:
        return str(first + 1)
    return f"{first + 1 if last > first else first},{last - first}"


def cut(text: str, max_characters: int) -> str:
    """`text`, or if it is too long its beginning and its end, with a note between them."""
    if len(text) <= max_characters:
        return text
    half = max_characters // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters not shown ...]\n{text[-half:]}"
