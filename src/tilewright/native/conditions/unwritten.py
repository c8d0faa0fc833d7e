"""Finds where a function reads a place on its stack that it has not written.

Such a place may hold what an earlier call of the kernel has left there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tilewright.native.conditions.blocks import Block
from tilewright.native.conditions.effects import Effects
from tilewright.native.conditions.listing import Function, Instruction
from tilewright.native.conditions.stack_cells import PLACE, cells_of, width_of

_ONLY_WRITES = re.compile(r"v?stmxcsr|fn?st|fist")


def unwritten_reads(
    function: Function, effects: Sequence[Effects], blocks: Sequence[Block]
) -> frozenset[int]:
    """The positions of instructions that read a place below `%rbp` by its offset which no
    instruction has written by its offset on some way there.

    `effects` are those of the instructions of the function, and `blocks` its blocks.
    """
    if not any(True for at in range(len(effects)) for _ in _read(function.code[at], effects[at])):
        return frozenset()
    written: list[set[str] | None] = [None] * len(blocks)
    written[0] = _saved(function)
    found: dict[int, set[int]] = {}
    open_ = {0}
    while open_:
        n = min(open_)
        open_.remove(n)
        state = set(written[n] or ())
        found[n] = set()
        for at in blocks[n].code:
            one = function.code[at]
            for cells in _read(one, effects[at]):
                if not state.issuperset(cells):
                    found[n].add(at)
            target = one.operands[-1] if one.operands else ""
            if PLACE.fullmatch(target) and not effects[at].only_compares:
                state.update(cells_of(one.name, one.operands, target)[0])
        for other in blocks[n].after:
            before = written[other]
            now = state if before is None else before & state
            if before is None or now != before:
                written[other] = set(now)
                open_.add(other)
    return frozenset().union(*found.values())


def _read(one: Instruction, effects: Effects) -> Iterator[tuple[str, ...]]:
    """The cells of each place below `%rbp` that an instruction reads. If its width is not known,
    only the first cell.
    """
    if _ONLY_WRITES.match(one.name):
        return
    for operand in effects.loads if effects.is_plain and not effects.is_nothing else ():
        place = PLACE.fullmatch(operand)
        if place and place[1].startswith("-"):
            cells = cells_of(one.name, one.operands, operand)[0]
            yield cells if width_of(one.name, one.operands) else cells[:1]


def _saved(function: Function) -> set[str]:
    """The cells to which the first instructions push registers, below `%rbp`."""
    cells: set[str] = set()
    offset = None
    for one in function.code:
        if one.name.startswith(("j", "call", "ret")):
            break
        if one.name == "movq" and one.operands == ("%rsp", "%rbp"):
            offset = 0
        elif one.name == "pushq" and offset is not None:
            offset -= 8
            cells.update(cells_of("movq", ("%rax", f"{offset}(%rbp)"), f"{offset}(%rbp)")[0])
    return cells
