"""Stores that finish sums as the core does: with an offset, a rounding shift, and limits.

A store multiplies a sum by a scale, rounds to the nearest integer, halves to the even one, and
limits the result. The core mostly rounds halves up: `(s + 64) >> 7`. Two stores do the same:

- If negative results become zero, a scale that is larger by the last bit. Every half is then a
  little more than a half.
- Otherwise `2 s + 1` instead of `s`, with half of the scale: it is never a half. All products and
  rows are then added twice.

What is stored then differs from the sum, and must have 32 bits for all possible elements of arrays.
A store must give the same results for all sums. Sums of up to 20 bits are tested one by one. Ranges
of larger sums, for which the results lie at a limit, are proved with bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tilewright.proposers.rewriter.raising.bounds import bounds
from tilewright.proposers.rewriter.raising.data import Tree, values

BITS = 20
"""All sums with up to this number of bits are tested."""
SUM_BITS = 31
"""The bits of a sum, without its sign."""
MOST_RANGES = 1000
"""Maximum number of ranges of larger sums whose bounds are computed."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The sums are multiplied by `times`, `offset` is added to them, and they are stored with a
    scale. Negative results become zero if they are `clipped`."""

    times: int
    offset: int
    scale: float
    clipped: bool


@lru_cache(maxsize=64)
def finish(tree: Tree, size: int, largest: int) -> Finish | None:
    """How a store to elements of `size` bytes computes a function of sums, whose absolute values
    are at most `largest`; None if it cannot."""
    sums = _sums()
    wanted = values(tree, sums)
    for one in _candidates(sums, wanted, size):
        fits = one.times * largest + abs(one.offset) < 1 << SUM_BITS
        if (one.times, one.offset) != (1, 0) and not fits:
            continue
        if np.array_equal(_stored(one, sums, size), wanted) and _is_same(tree, one, size):
            return one
    return None


@lru_cache(maxsize=1)
def _sums() -> np.ndarray:
    return np.arange(-(1 << BITS), 1 << BITS, dtype=np.int64)


def _is_same(tree: Tree, one: Finish, size: int) -> bool:
    """Whether a store computes a function of sums of more than `BITS` bits."""
    most = 1 << SUM_BITS
    ranges = [(-most, -(1 << BITS) - 1), (1 << BITS, most - 1)]
    for _ in range(MOST_RANGES):
        if not ranges:
            return True
        low, high = ranges.pop()
        smallest, largest = bounds(tree, low, high)
        if smallest < largest:
            middle = (low + high) >> 1
            ranges += [(low, middle), (middle + 1, high)]
        elif np.any(_stored(one, np.array([low, high]), size) != smallest):
            return False  # the results of a store never decrease from `low` to `high`
    return False


def _candidates(sums: np.ndarray, wanted: np.ndarray, size: int) -> Iterator[Finish]:
    """Stores whose results are right at the first result above zero and at the largest one."""
    most = (1 << (8 * size - 1)) - 1
    clipped = bool(wanted.min() >= 0)
    if wanted.max() != most or wanted.min() not in (0, -most - 1):
        return
    one, last = (int(sums[np.argmax(wanted >= level)]) for level in (1, most))
    shift = ((last - one) // (most - 1)).bit_length() - 1
    if shift < 0 or last - one != (most - 1) << shift:
        return
    if shift == 0:
        yield Finish(1, 1 - one, 1.0, clipped)
        return
    half, scale = 1 << (shift - 1), 2.0**-shift
    above = float(np.nextafter(np.float32(scale), np.float32(1)))
    yield Finish(1, half + 1 - one, scale, clipped)
    yield Finish(1, half - one, above, clipped)
    yield Finish(2, 2 * (half - one) + 1, scale / 2, clipped)


def _stored(one: Finish, sums: np.ndarray, size: int) -> np.ndarray:
    """The results of a store."""
    most = (1 << (8 * size - 1)) - 1
    scaled = (one.times * sums + one.offset).astype(np.float32) * np.float32(one.scale)
    limited = np.clip(np.rint(scaled), 0 if one.clipped else -most - 1, most)
    return np.asarray(limited, np.int64)
