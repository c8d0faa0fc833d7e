"""Values that the GPU draws for timed calls, drawn again here bit for bit, and hashes of arrays.

Uploading new values for every call of a batch would take longer than the calls. Therefore, the
device draws them (`draw_floats` in program.cu). All copies of an array have different values in
every batch, and the evaluator repeats the drawing for the copies that it compares.
"""

from __future__ import annotations

import numpy as np

from tilewright.parts.inputs import Array

UNIT = float(np.sqrt(3.0) / 65536)
"""Scale that gives values a standard deviation of 1. A value is the sum of four 16-bit numbers
minus their mean."""
_MASK = (1 << 64) - 1
_AT_A_TIME = 1 << 22


def drawn_floats(shape: tuple[int, ...], key: int, copy: int, scale: float) -> Array:
    """The values that `draw_floats` writes to a copy: approximately normal, mean 0, float32."""
    count = int(np.prod(shape))
    found = np.empty(count, np.float32)
    begin = np.uint64((key + copy) & _MASK)
    for start in range(0, count, _AT_A_TIME):
        end = min(start + _AT_A_TIME, count)
        x = _mixed(_mixed(np.arange(start, end, dtype=np.uint64)) + begin)
        total = np.zeros(end - start, np.int32)
        for shift in (0, 16, 32, 48):
            total += (x >> np.uint64(shift) & np.uint64(0xFFFF)).astype(np.int32)
        found[start:end] = (total - 131070).astype(np.float32) * np.float32(scale)
    return found.reshape(shape)


def hash_of(data: bytes) -> int:
    """The result of `hash_words` for an array: a sum of 64-bit hashes of each word with its
    position."""
    words = np.frombuffer(data + bytes(-len(data) % 4), np.uint32)
    total = 0
    for start in range(0, len(words), _AT_A_TIME):
        part = words[start : start + _AT_A_TIME].astype(np.uint64)
        places = np.arange(start, start + len(part), dtype=np.uint64) << np.uint64(32)
        total += int(_mixed(places ^ part).sum(dtype=np.uint64))
    return total & _MASK


def _mixed(x: Array) -> Array:
    with np.errstate(over="ignore"):
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            x = (x ^ (x >> np.uint64(33))) * np.uint64(factor)
        found: Array = x ^ (x >> np.uint64(33))
    return found
