"""The part of a buffer that a tile accesses."""

from __future__ import annotations

import numpy as np

from tilewright.tuner.candidates import Floats, Integers
from tilewright.tuner.workload import Access


def tile_shape(access: Access, tile: Integers) -> Integers:
    """Bounding box of the elements of a buffer that a tile accesses.

    `tile` (n, loops) is the number of consecutive iterations of each loop in the tile; it is 1 for
    a loop that does not advance inside the tile. Each dimension spans `1 + sum(c * (t - 1))`
    elements. Returns (n, dims).
    """
    shape = np.ones((len(tile), len(access.dims)), dtype=np.int64)
    for dim, terms in enumerate(access.dims):
        for loop, coefficient in terms:
            shape[:, dim] += abs(coefficient) * (tile[:, loop] - 1)
    return shape


def footprint(access: Access, tile: Integers) -> Floats:
    """Number of elements in the bounding box that a tile accesses in a buffer, (n,)."""
    return np.asarray(tile_shape(access, tile).prod(axis=1), dtype=np.float64)
