"""The machine code of a kernel: the core's instructions by loop, and for each product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilewright.core.compiled_code import CodeLoop, CompiledCode
from tilewright.core.errors import InputError
from tilewright.parts.debug_lines import source_lines
from tilewright.parts.languages import C
from tilewright.parts.machine_code.flow import reached
from tilewright.parts.machine_code.riscv import ARCHITECTURE, read_elf
from tilewright.parts.machine_code.summary import TooLargeError, summarized

COMMANDS: Mapping[int, str] = {
    0: "config", 1: "mvin2", 2: "mvin", 3: "mvout", 4: "compute_preloaded",
    5: "compute_accumulated", 6: "preload", 7: "flush", 14: "mvin3",
}  # fmt: skip
"""The names of commands by their funct field, as in runtime/gemmini.h. Other values are loop
commands.
"""
PRODUCTS = ("compute_preloaded", "compute_accumulated")


def compiled_code(elf: bytes) -> CompiledCode:
    """The loops of a linked kernel and of the functions that it calls."""

    def lines(addresses: Sequence[int]) -> Sequence[int | None]:
        return source_lines(elf, addresses, C.file)

    try:
        entry, code = read_elf(elf, C.entry, COMMANDS)
        summary = summarized(ARCHITECTURE, reached(code, [entry]), [entry], lines)
    except (ValueError, TooLargeError) as error:
        raise InputError(f"{error}.".replace("..", ".")) from error
    notes = (_note(loop) for loop in summary.loops)
    return replace(summary, notes=tuple(note for note in notes if note))


def _note(loop: CodeLoop) -> str:
    """The number of instructions for each pair of preload and compute, for a loop that directly
    contains such pairs.
    """
    if not loop.innermost:
        return ""
    products = sum(one.text.split()[0] in PRODUCTS for one in loop.listing)
    if not products:
        return ""
    return (
        f"loop {loop.number}: {loop.count / products:.1f} instructions for each pair of preload "
        "and compute"
    )
