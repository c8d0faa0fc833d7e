"""In which order stores and loads use the bytes of arrays.

Results that depend on one another have increasing phases: a phase reads what earlier phases store.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.translation.parts import SPACING


@dataclass
class MemoryOrder:
    """The bytes of the `tracked` arrays that were stored, each with its phase, and those that were
    loaded before.
    """

    tracked: frozenset[int]
    written: dict[int, bytearray] = field(default_factory=dict)
    read: dict[int, bytearray] = field(default_factory=dict)

    def phase_of(self, address: int, stride: int, size: int, rows: int) -> int:
        """The number of stores that depend on one another before these bytes are available."""
        array, at = divmod(address, SPACING)
        if array not in self.tracked:
            return 0
        read = self.read.setdefault(array, bytearray())
        _grow(read, at + stride * (rows - 1) + size)
        ones = b"\1" * size
        written = self.written.get(array)
        phase = 0
        for start in range(at, at + stride * (rows - 1) + 1, stride) if stride else (at,):
            if not written or start >= len(written):
                read[start : start + size] = ones
                continue
            levels = written[start : start + size]
            phase = max(phase, *levels)
            if min(levels) == 0:
                read[start : start + size] = ones
        return phase

    def mark(self, address: int, size: int, phase: int, line: int) -> None:
        """Take note of a store; `NotRaised` if the bytes were loaded or stored before."""
        array, at = divmod(address, SPACING)
        if phase > 255:
            raise NotRaised("the kernel computes more than 255 results one from the other", line)
        written = self.written.setdefault(array, bytearray())
        _grow(written, at + size)
        read = self.read.get(array)
        if any(written[at : at + size]) or (read and any(read[at : at + size])):
            raise NotRaised("the kernel stores to memory that it loaded or stored before", line)
        written[at : at + size] = bytes((phase,)) * size


def _grow(held: bytearray, size: int) -> None:
    if len(held) < size:
        held.extend(bytes(max(size, 2 * len(held)) - len(held)))
