"""A kernel's machine code as the tool `asm` tells of it."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core.compiled_code import CodeLoop, CompiledCode
from tilewright.core.errors import InputError
from tilewright.core.records import content_id
from tilewright.core.text import plain_text
from tilewright.tools.records import Assembly, LoopCode

MOST_LISTED = 400
"""Instructions of a listing; those after them are left out."""
LONGEST_TEXT = 60
"""Characters of a source line that are repeated."""
COMMANDS = "commands"
"""The class of instructions that are an accelerator's commands."""


def assembly(source: str, code: CompiledCode, chosen: str) -> Assembly:
    """The loops of a kernel, and the listing of the loop that is `chosen` by number or line.

    A line stands for the first innermost loop at it, else for the first loop; "" for no listing.
    `InputError` where there is no such loop.
    """
    texts = source.splitlines()
    loop = _chosen(code.loops, chosen) if chosen else None
    listing = loop.listing if loop is not None else ()
    return Assembly(
        content_id(source),
        code.architecture,
        code.instructions,
        code.code_bytes,
        tuple(_told(one, texts) for one in code.loops),
        code.notes,
        loop.number if loop is not None else None,
        tuple(plain_text(line) for line in listing[:MOST_LISTED]),
        max(0, len(listing) - MOST_LISTED),
    )


def _chosen(loops: Sequence[CodeLoop], chosen: str) -> CodeLoop:
    word, _, number = chosen.strip().rpartition(" ")
    if not number.isdecimal() or word not in ("", "loop", "line"):
        raise InputError(
            f"loop {plain_text(chosen[:40])!r} is no number of a loop: give one of those that asm "
            "lists, or 'line 12' for the loop at a line."
        )
    at_line = [loop for loop in loops if word == "line" and loop.line == int(number)]
    at_line.sort(key=lambda loop: not loop.innermost)
    found = at_line or [loop for loop in loops if word != "line" and loop.number == int(number)]
    if found:
        return found[0]
    if not loops:
        raise InputError("the kernel has no loop that could be listed: leave the loop out.")
    if word == "line":
        lines = sorted({loop.line for loop in loops if loop.line is not None})
        at = ", ".join(map(str, lines)) or "no known line"
        raise InputError(f"no loop is at line {number} of the kernel: its loops are at {at}.")
    raise InputError(
        f"the kernel has no loop {number}: its loops are numbered from 1 to {len(loops)}."
    )


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
