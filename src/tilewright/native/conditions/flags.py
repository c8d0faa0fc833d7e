"""Where the processor's flags are read later, so that code that is added there must keep them.

Reading and restoring all flags takes longer than the rest of the code that records a value.
"""

from __future__ import annotations

import re

from tilewright.native.conditions.effects import effects_of
from tilewright.native.conditions.listing import Function, Instruction

_SETS_ALL = re.compile(r"(?:add|sub|cmp|test|and|or|xor|neg)[bwlq]?|v?u?comis[sd]")
"""Instructions that write all flags. Others, for instance shifts, may leave some as they are."""


def needed_before(function: Function) -> list[bool]:
    """For each position, and for the end, whether an instruction there, or after it, may read the
    flags that it finds.
    """
    needed = [True] * (len(function.code) + 1)
    for at in range(len(function.code) - 1, -1, -1):
        needed[at] = _needed_before(function.code[at], after=needed[at + 1])
    return needed


def _needed_before(one: Instruction, *, after: bool) -> bool:
    if one.name.startswith(("ret", "call")):  # no function expects flags of another one
        return False
    if _SETS_ALL.fullmatch(one.name):
        return False
    # After a jump, instructions elsewhere may read them.
    return after or one.name.startswith("j") or effects_of(one).may_read_flags
