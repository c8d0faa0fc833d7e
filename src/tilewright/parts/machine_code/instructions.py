"""One instruction of any machine, and the classes that instructions are counted in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Class = Literal[
    "arithmetic",  # of the core, on whole numbers or single floats, with moves between registers
    "floating-point arithmetic",  # of a GPU's threads, apart from that on whole numbers
    "vector arithmetic",
    "vector moves",  # between vector registers, or of elements within them
    "loads",
    "stores",
    "branches",  # jumps and returns
    "calls",
    "commands",  # of an accelerator, or of a unit for tiles
    "other",  # fences, prefetches, padding
]

Flow = Literal["next", "branch", "jump", "call", "end"]
"""What runs after an instruction: the next one; that or the target; the target; the next one after
the target has returned; nothing that is known (a return, an address in a register)."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction at an address of the linked kernel, `size` bytes long.

    `target` is where a branch, jump or call leads, None where that is not known. `reads` and
    `writes` say that it accesses memory, whatever its class; `frame` that this is a single word of
    the stack frame. `extends` says that it only extends a sign or with zeros. `vector_bytes` are
    those of the widest vector register of vector arithmetic, 0 for all else.
    """

    address: int
    size: int
    text: str
    kind: Class
    flow: Flow = "next"
    target: int | None = None
    reads: bool = False
    writes: bool = False
    frame: bool = False
    extends: bool = False
    vector_bytes: int = 0
    padding: bool = False

    @property
    def end(self) -> int:
        """The address after it."""
        return self.address + self.size
