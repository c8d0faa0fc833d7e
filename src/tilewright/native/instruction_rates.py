"""How many instructions of each kind a core starts per cycle, and what this means for a loop.

The rates are measured once in about a tenth of a second, with the widest vectors, and stored.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from tilewright.core.compiled_code import CodeLoop
from tilewright.native.calibration import calibrated
from tilewright.native.toolchain import Toolchain

SOURCE = Path(__file__).with_name("instruction_rates.c")


@dataclass(frozen=True, slots=True)
class InstructionRates:
    """The most instructions of each kind on vectors of `vector_bytes` that start per cycle, and the
    cycles per second.

    `vector_arithmetic` is the rate of a mixture of multiply-adds, additions and logic.
    """

    vector_bytes: float
    cycles_per_s: float
    multiply_adds: float
    shifts_and_logic: float
    conversions: float
    shuffles: float
    vector_arithmetic: float
    loads: float
    stores: float

    def in_words(self) -> str:
        """A sentence on all rates."""
        kinds = ", ".join(
            f"{f.name.replace('_', ' ').replace('multiply adds', 'multiply-adds')} "
            f"{_rounded(getattr(self, f.name)):g}"
            for f in fields(self)[2:]
        )
        return (
            f"A cycle of this core takes {1e9 / self.cycles_per_s:.2f} ns. In each cycle, the core "
            f"starts at most this many instructions on vectors of {self.vector_bytes:.0f} bytes "
            f"(measured): {kinds}"
        )

    def least_cycles(self, loop: CodeLoop) -> tuple[float, str] | None:
        """The cycles that one iteration needs at least, because of the instructions that take the
        most time, and their kind; None for loops with other vectors or several paths.
        """
        if loop.vector_bytes != self.vector_bytes or not loop.one_path:
            return None
        needs = [(n / _rounded(rate), what) for n, rate, what in self._loads_of(loop) if n]
        return max(needs, default=None, key=lambda need: need[0])

    def _loads_of(self, loop: CodeLoop) -> Iterator[tuple[int, float, str]]:
        """Number of instructions of each kind in one iteration, their rate, and the kind."""
        counted, work = loop.instructions.get, loop.vector_work.get
        yield work("multiply-adds", 0), self.multiply_adds, "multiply-adds"
        yield work("shifts and logic", 0), self.shifts_and_logic, "shifts and logic"
        yield work("conversions", 0), self.conversions, "conversions"
        yield counted("vector arithmetic", 0), self.vector_arithmetic, "vector arithmetic"
        # Loads and stores of fewer bytes may start at higher rates.
        yield loop.vector_reads, self.loads, "loads"
        yield loop.vector_writes, self.stores, "stores"


def instruction_rates(toolchain: Toolchain) -> InstructionRates | None:
    """The rates of this machine's cores, which are measured if they are not stored yet; None for
    processors whose machine code is not read.
    """
    if platform.machine() != "x86_64":
        return None
    names = tuple(f.name for f in fields(InstructionRates))
    source = SOURCE.read_text(encoding="utf-8")
    return InstructionRates(**calibrated(toolchain, source, (), names))


def _rounded(rate: float) -> float:
    """In halves, so that the numbers do not change with every measurement."""
    return max(0.5, round(2 * rate) / 2)
