"""Records the regions of every instruction as they were given, in addition to the trace.

A trace contains the data for the latency model. To translate a kernel, the exact places with masks,
and the operands that are not tiles, are also needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.targets.trainium.tiles.buffer import Buffer
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.tiles.view import View
from tilewright.targets.trainium.trace import Instruction


@dataclass(slots=True, eq=False)
class Recorded:
    """One instruction. `settings` are its operands by name, with None for tiles."""

    instruction: Instruction
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    mask: Mask | None
    settings: Mapping[str, object]


class Recorder:
    """The recorded instructions, in the order of the trace."""

    def __init__(self) -> None:
        self.entries: list[Recorded] = []
        self._by_instruction: dict[Instruction, Recorded] = {}

    def add(
        self,
        instruction: Instruction,
        reads: tuple[View, ...],
        writes: tuple[View, ...],
        mask: Mask | None,
        settings: Mapping[str, object],
    ) -> None:
        """Add an instruction."""
        entry = Recorded(instruction, reads, writes, mask, settings)
        self.entries.append(entry)
        self._by_instruction[instruction] = entry

    def redirect(self, instructions: Sequence[Instruction], buffer: Buffer, dst: View) -> None:
        """Let some instructions write to `dst` instead of a fresh tile."""
        for instruction in instructions:
            entry = self._by_instruction[instruction]
            entry.writes = tuple(dst if v.buffer is buffer else v for v in entry.writes)
