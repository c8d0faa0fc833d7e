"""One instruction of any machine, and the classes of instructions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Class = Literal[
    # Scalar instructions of the core on integers or floats, including moves between registers.
    "arithmetic",
    "floating-point arithmetic",  # floating-point arithmetic of a GPU's threads
    "vector arithmetic",
    "vector moves",  # moves between vector registers, or of elements within a register
    "loads",
    "stores",
    "branches",  # jumps and returns
    "calls",
    "commands",  # commands of an accelerator or of a tile unit
    "other",  # fences, prefetches, padding
]

Flow = Literal["next", "branch", "jump", "call", "end"]
"""The instruction that is executed next: the following one; the following one or the target; the
target; the following one after the target has returned; or an unknown one (a return, an address in
a register).
"""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction at an address of the linked kernel, `size` bytes long.

    `target` is the destination of a branch, jump or call, or None if it is unknown. `reads` and
    `writes` are true if the instruction accesses memory, whatever its class; `frame` is true if it
    accesses a single word of the stack frame. `extends` is true if it only extends a number with
    its sign or with zeros. `vector_bytes` is the width of the widest register of vector arithmetic,
    and 0 for other instructions. `work` says in words what vector arithmetic does, as far as this
    decides which unit of the core does it. `accessed_bytes` is the size of a whole vector register
    that the instruction reads from memory, or writes to it, and 0 if it accesses less.
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
    work: str = ""
    accessed_bytes: int = 0
    padding: bool = False

    @property
    def end(self) -> int:
        """The address after the instruction."""
        return self.address + self.size
