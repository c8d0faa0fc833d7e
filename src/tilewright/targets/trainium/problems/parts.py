"""Computes a formula for one part of its output at a time, so that it stays in a processor's cache.

New memory for whole intermediate results would take longer than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tilewright.parts.arithmetic import Format
from tilewright.parts.error_tracking import TrackedArray
from tilewright.parts.float_error import Formula, follow
from tilewright.parts.inputs import Array
from tilewright.parts.memory import KeptMemory

IN_CACHE = 1 << 17  # elements of float64
Part = tuple[Any, Mapping[str, Array]]
"""The index of a part of the output, and the operands from which it follows."""


def followed_in_parts(
    formula: Formula,
    shape: tuple[int, ...],
    parts: Iterable[Part],
    numbers: Format,
    memory: KeptMemory,
) -> dict[str, TrackedArray]:
    """`out` of a formula, in `memory`, with exact values and deviations. The parts cover all of it.

    Deviations are kept in float32, because they need few digits. Those that are too large for
    float32 become its largest number, which allows a smaller error.
    """
    exact = memory.empty(shape, np.float64)
    deviation = memory.empty(shape, np.float32) if numbers.rounds else None
    for index, operands in parts:
        found = follow(formula, operands, (), numbers)["out"]
        exact[index] = found.exact
        if deviation is not None:
            deviation[index] = np.minimum(found.deviation, np.finfo(np.float32).max)
    return {"out": TrackedArray(exact, deviation, [], (), numbers)}


def slices(length: int, elements: int) -> Iterable[slice]:
    """Slices of an axis of this length, of which each index has this many elements."""
    step = max(1, IN_CACHE // elements)
    return (slice(first, first + step) for first in range(0, length, step))
