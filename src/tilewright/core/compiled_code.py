"""The machine code that a compiler generated for a kernel, with its loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CodeLine:
    """One instruction: its address, its text, and the source line that it was compiled from."""

    address: int
    text: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class CodeLoop:
    """One loop of the machine code: the blocks that are repeated by a jump to an earlier block.

    Attributes:
        number: number of the loop in the order of addresses, from 1.
        line: line of the kernel's source; None if the compiler does not state it.
        depth: nesting depth; 1 for outermost loops.
        inside: number of the loop that contains this loop; None for outermost loops.
        innermost: whether this loop contains no loop.
        straight: whether an iteration has only one path. If there are several paths, the
            instructions of all paths are counted, and an iteration executes fewer.
        one_path: whether all iterations but the last one execute all instructions. The last one
            may leave the loop before its end.
        code_bytes: size of the code, including inner loops.
        instructions: number of instructions of one iteration in each class, without inner loops.
        vector_work: how many instructions of vector arithmetic do which work, in words.
        reads: instructions other than loads that also read memory.
        spill_loads, spill_stores: accesses to single words of the stack frame.
        extensions: instructions that only extend a number with its sign or with zeros.
        vector_bytes: width of the widest register used by arithmetic; 0 for scalar code.
        vector_reads, vector_writes: instructions that read or write memory of this width.
        listing: the instructions in the order of addresses, including inner loops.
    """

    number: int
    line: int | None
    depth: int
    inside: int | None
    innermost: bool
    straight: bool
    code_bytes: int
    instructions: Mapping[str, int]
    vector_work: Mapping[str, int] = field(default_factory=dict)
    reads: int = 0
    spill_loads: int = 0
    spill_stores: int = 0
    extensions: int = 0
    vector_bytes: int = 0
    vector_reads: int = 0
    vector_writes: int = 0
    listing: tuple[CodeLine, ...] = ()
    one_path: bool = False

    @property
    def count(self) -> int:
        """The number of instructions of one iteration, on all paths."""
        return sum(self.instructions.values())


@dataclass(frozen=True, slots=True)
class CompiledCode:
    """A kernel's machine code, including the functions that are part of it.

    `notes` describes each innermost loop in one line for proposers. `listing` contains all
    instructions in the order of addresses.
    """

    architecture: str
    code_bytes: int
    instructions: int
    loops: tuple[CodeLoop, ...]
    notes: tuple[str, ...] = ()
    listing: tuple[CodeLine, ...] = ()
