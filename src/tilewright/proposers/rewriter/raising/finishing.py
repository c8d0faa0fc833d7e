"""Stores that finish sums as the core does: with an offset, a rounding shift, and limits.

A store multiplies a sum by a scale, rounds to the nearest integer, halves to the even one, and
limits the result. The core mostly rounds halves up: `(s + 64) >> 7`. Two stores do the same:

- If negative results become zero, a scale that is larger by the last bit. Every half is then a
  little more than a half.
- Otherwise `2 s + 1` instead of `s`, with half of the scale: it is never a half. All products and
  rows are then added twice.

Whether a store gives the same results is tested with every sum of up to 20 bits, and with some
larger ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tilewright.proposers.rewriter.raising.data import SUM, Tree, values

BITS = 20
"""All sums with up to this number of bits are tested."""
LARGEST = 29
"""Sums with more bits than this are not tested: the store may not add them twice."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The sums are multiplied by `times`, `offset` is added to them, and they are stored with a
    scale. Negative results become zero if they are `clipped`."""

    times: int
    offset: int
    scale: float
    clipped: bool


@lru_cache(maxsize=64)
def finish(tree: Tree, size: int) -> Finish | None:
    """How a store to elements of `size` bytes computes a function of sums; None if it cannot."""
    sums = _sums()
    wanted = values(tree, sums)
    for one in _candidates(sums, wanted, size):
        if np.array_equal(_stored(one, sums, size), wanted):
            return one
    return None


def added(tree: Tree) -> int | None:
    """The number c if a function adds c to the sum; None if it is another function."""
    if tree == SUM:
        return 0
    is_offset = isinstance(tree, tuple) and tree[:2] == ("add", SUM) and isinstance(tree[2], int)
    return tree[2] if is_offset else None


@lru_cache(maxsize=1)
def _sums() -> np.ndarray:
    all_small = np.arange(-(1 << BITS), (1 << BITS) + 1, dtype=np.int64)
    powers = [1 << bits for bits in range(BITS + 1, LARGEST + 1)]
    large = np.array([p + d for p in powers for d in (-1, 0, 1)], np.int64)
    return np.concatenate([-large[::-1], all_small, large])


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
