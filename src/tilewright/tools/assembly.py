"""The machine code of a kernel as the tool `asm` shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tilewright.core.compiled_code import CodeLine, CodeLoop, CompiledCode
from tilewright.core.errors import InputError
from tilewright.core.records import content_id
from tilewright.core.text import plain_text
from tilewright.tools.records import Assembly, LoopCode

MOST_LISTED = 400
"""Maximum number of instructions of a listing; further ones are left out."""
LONGEST_TEXT = 60
"""Number of characters of a source line that are shown."""
COMMANDS = "commands"
"""The class of instructions that issue commands of an accelerator."""
ALL = "all"
"""The argument that selects a listing of the whole code."""
FETCHED_BYTES = 64
"""Number of bytes of code that are fetched together, which is the size of a cache line on nearly
all machines.
"""

_LINES = re.compile(r"lines\s+(\d{1,9})\s*-\s*(\d{1,9})")


def assembly(source: str, code: CompiledCode, chosen: str) -> Assembly:
    """The loops of a kernel, and the listing that `chosen` selects, or none for "".

    `chosen` is a loop by its number or line, `all` for the whole code, or source lines such as
    `lines 12-20`. A line selects the first innermost loop on it, or otherwise the first loop.
    Raises `InputError` if there is no such loop or line.
    """
    texts = source.splitlines()
    loop, listed, listing = _chosen(code, chosen.strip())
    return Assembly(
        content_id(source),
        code.architecture,
        code.instructions,
        code.code_bytes,
        tuple(_told(one, texts) for one in code.loops),
        code.notes,
        loop,
        tuple(_rows(listing[:MOST_LISTED], has_bytes=code.code_bytes > 0)),
        max(0, len(listing) - MOST_LISTED),
        listed,
    )


def _chosen(code: CompiledCode, chosen: str) -> tuple[int | None, str, Sequence[CodeLine]]:
    """The number of the loop that is listed, if it is one, the listing's title and the listing."""
    if not chosen:
        return None, "", ()
    if chosen == ALL:
        return None, "all of the code", code.listing
    lines = _LINES.fullmatch(chosen)
    if lines:
        first, last = int(lines[1]), int(lines[2])
        found = [one for one in code.listing if one.line is not None and first <= one.line <= last]
        if not found:
            raise InputError(
                f"lines {first} to {last} of the kernel were compiled to no instructions."
            )
        return None, f"lines {first} to {last}", found
    loop = _loop(code.loops, chosen)
    return loop.number, f"loop {loop.number}", loop.listing


def _loop(loops: Sequence[CodeLoop], chosen: str) -> CodeLoop:
    word, _, number = chosen.rpartition(" ")
    if not number.isdecimal() or word not in ("", "loop", "line"):
        raise InputError(
            f"loop {plain_text(chosen[:40])!r} is not a loop's number. Give one of those that asm "
            "lists, 'line 12' for the loop at a line, 'lines 12-20' for the code of these lines, "
            "or 'all'."
        )
    at_line = [loop for loop in loops if word == "line" and loop.line == int(number)]
    at_line.sort(key=lambda loop: not loop.innermost)
    found = at_line or [loop for loop in loops if word != "line" and loop.number == int(number)]
    if found:
        return found[0]
    if not loops:
        raise InputError("the kernel has no loop that could be listed. Give 'all' as the loop.")
    if word == "line":
        lines = sorted({loop.line for loop in loops if loop.line is not None})
        at = ", ".join(map(str, lines)) or "no known line"
        raise InputError(f"no loop is at line {number} of the kernel: its loops are at {at}.")
    raise InputError(
        f"the kernel has no loop {number}: its loops are numbered from 1 to {len(loops)}."
    )


def _rows(listing: Sequence[CodeLine], *, has_bytes: bool) -> Iterator[str]:
    """Instructions in rows. A new row begins with each change of the source line and with each
    64-byte block.

    A row begins with the address of its first instruction (with `*` at the beginning of a 64-byte
    block) and the source line. The instructions of a trace have no addresses and no marks.
    """
    row: list[str] = []
    before: tuple[int, int | None] | None = None
    for one in listing:
        place = one.address // FETCHED_BYTES, one.line
        if place != before:
            if row:
                yield "; ".join(row)
            begins = has_bytes and (before is None or place[0] != before[0])
            line = f"{one.line}" if one.line is not None else "-"
            row = [f"{'*' if begins else ' '}{one.address:x} {line}: {_text(one)}"]
            before = place
        else:
            row.append(_text(one))
    if row:
        yield "; ".join(row)


def _text(one: CodeLine) -> str:
    return plain_text(" ".join(one.text.split()))


def _told(loop: CodeLoop, texts: Sequence[str]) -> LoopCode:
    commands = loop.instructions.get(COMMANDS, 0)
    is_known = loop.line is not None and 0 < loop.line <= len(texts)
    return LoopCode(
        loop.number,
        loop.line,
        texts[(loop.line or 1) - 1].strip()[:LONGEST_TEXT] if is_known else "",
        loop.depth,
        loop.innermost,
        loop.straight,
        loop.count,
        dict(loop.instructions),
        loop.count / commands if commands else None,
        loop.code_bytes,
        loop.reads,
        loop.spill_loads,
        loop.spill_stores,
        loop.extensions,
        loop.vector_bytes,
    )
