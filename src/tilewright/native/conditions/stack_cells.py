"""The stack of a function in cells of four bytes, which an analysis follows like registers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from tilewright.native.conditions.effects import registers
from tilewright.native.conditions.listing import Instruction

STACK = "stack "
"""What the names of cells begin with."""
_CELL = 4
PLACE = re.compile(r"(-?\d*)\(%rbp\)")
_WIDTHS = {"b": 1, "w": 2, "l": 4, "d": 4, "q": 8, "ss": 4, "sd": 8}
_VECTORS = {"x": 16, "y": 32, "z": 64}
_WIDEST = 64
_EXTENDS = re.compile(r"mov[sz]([bwl])[wlq]")
_WHOLE = re.compile(
    r"(?:mov|add|sub|cmp|test|and|or|xor|i?mul|i?div|inc|dec|neg|not|sh[lr]|sa[lr])([bwlq])"
)
_MOVED = re.compile(r"v?mov([dq])")
_SCALAR = re.compile(r"v?(?:mov|add|sub|mul|div|min|max|sqrt|u?comi|fn?m(?:add|sub)\d{3})(s[sd])")
_PACKED = re.compile(
    r"v?(?:(?:mov[au]|add|sub|mul|div|min|max|and|or|xor|fn?m(?:add|sub)\d{3})p[sd]|movdq[au]\d*"
    r"|p(?:add|sub|and|or|xor)[bwdq]?)"
)
_OF_FRAME = re.compile(
    r"(?:pushq|popq) %rbp|movq %rsp, %rbp|(?:subq|addq|andq) \$-?\w+, %rsp|leaq -?\d*\(%rbp\), %rsp"
    r"|leaq 8\(%rsp\), %r10|leaq -8\(%r10\), %rsp"
)
"""Instructions that begin and end a function. The last two are of one that aligns the stack."""


def is_followed(code: Sequence[Instruction]) -> bool:
    """Whether every access of a function to its stack names its place relative to `%rbp`, so that
    the function computes no address on the stack and no index into it.
    """
    for one in code:
        if _OF_FRAME.fullmatch(f"{one.name} {', '.join(one.operands)}"):
            continue
        for operand in one.operands:
            named = registers(operand)
            is_place = bool(PLACE.fullmatch(operand))
            if "sp" in named or ("bp" in named and not is_place):
                return False
            if is_place and one.name.startswith("lea"):
                return False
    return True


@lru_cache(maxsize=1 << 14)
def cells_of(name: str, operands: tuple[str, ...], place: str) -> tuple[tuple[str, ...], bool]:
    """The names of the cells that an instruction reads or writes at an operand on the stack, and
    whether it writes all their bytes. If its width is not known, the cells are those of the widest
    instruction.
    """
    width = width_of(name, operands)
    begin = int(place.partition("(")[0] or 0)
    end = begin + (width or _WIDEST)
    cells = range(begin // _CELL, -(-end // _CELL))
    whole = width is not None and begin % _CELL == 0 and end % _CELL == 0
    return tuple(f"{STACK}{cell}" for cell in cells), whole


def width_of(name: str, operands: tuple[str, ...]) -> int | None:
    """The bytes that an instruction reads or writes in memory; None if they are not known."""
    for form in (_EXTENDS, _WHOLE, _MOVED, _SCALAR):
        if found := form.fullmatch(name):
            return _WIDTHS[found[1]]
    vectors = {operand[1] for operand in operands if re.fullmatch(r"%[xyz]mm\d+", operand)}
    if _PACKED.fullmatch(name) and len(vectors) == 1:
        return _VECTORS[vectors.pop()]
    return None
