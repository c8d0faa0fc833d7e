"""What a compiler made of a kernel: its loops as they stand in the machine code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CodeLine:
    """One instruction: where it lies, as text, and the kernel's source line that it comes of."""

    address: int
    text: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class CodeLoop:
    """One loop of the machine code: the blocks that a jump back to an earlier one repeats.

    `instructions` are those of one iteration by class, and add up to all of them; what loops inside
    it hold is left out. Where the iteration may take several ways (`straight` is false), those of
    all ways are counted, so that an iteration runs fewer. `reads` are the instructions of other
    classes than loads that read memory too. `spill_loads` and `spill_stores` are accesses to single
    words of the stack frame, `extensions` instructions that only extend a sign or with zeros.

    Attributes:
        number: in the order of addresses, from 1.
        line: of the kernel's source, None where the compiler does not say.
        depth: 1 for loops that are in no other one.
        inside: number of the loop that it is in, None for none.
        innermost: whether it has no loop in it.
        code_bytes: its size, with the loops in it.
        vector_bytes: of the widest register that its arithmetic uses; 0 for scalar code.
        listing: its instructions in the order of addresses, with the loops in it.
    """

    number: int
    line: int | None
    depth: int
    inside: int | None
    innermost: bool
    straight: bool
    code_bytes: int
    instructions: Mapping[str, int]
    reads: int = 0
    spill_loads: int = 0
    spill_stores: int = 0
    extensions: int = 0
    vector_bytes: int = 0
    listing: tuple[CodeLine, ...] = ()

    @property
    def count(self) -> int:
        """Instructions of one iteration, of all ways through it."""
        return sum(self.instructions.values())


@dataclass(frozen=True, slots=True)
class CompiledCode:
    """A kernel's machine code, with the functions it calls as far as they are in it.

    `notes` say in words what a proposer should know of the innermost loops, a line each. `listing`
    are all instructions in the order of addresses.
    """

    architecture: str
    code_bytes: int
    instructions: int
    loops: tuple[CodeLoop, ...]
    notes: tuple[str, ...] = ()
    listing: tuple[CodeLine, ...] = ()
