"""Detects whether a kernel used the hardware's loop unrollers.

Only baselines may use them. The header with their macros is refused in a candidate's source, but a
candidate could also write the instruction word of a command as data.
"""

from __future__ import annotations

import io
from collections.abc import Iterable

from elftools.elf.elffile import ELFFile

from tilewright.targets.gemmini.code import COMMANDS

_CUSTOM_3 = 0x7B
"""The opcode of commands, in the low 7 bits of an instruction."""


def loop_command(elf: bytes, executed: Iterable[int]) -> int | None:
    """The first of these addresses that contains a loop command; None if there is none.

    `executed` are addresses of instructions in the binary's code, which no kernel can change.
    """
    image = ELFFile(io.BytesIO(elf))
    segments = [(s["p_vaddr"], s.data()) for s in image.iter_segments("PT_LOAD")]
    for pc in executed:
        for start, data in segments:
            word = int.from_bytes(data[pc - start : pc - start + 4], "little") if pc >= start else 0
            if word & 0x7F == _CUSTOM_3 and word >> 25 not in COMMANDS:
                return pc
    return None
