"""How much of a buffer a tile touches."""

from __future__ import annotations

import numpy as np

from tilewright.tuner.candidates import Floats, Integers
from tilewright.tuner.workload import Access


def tile_shape(access: Access, tile: Integers) -> Integers:
    """Bounding box of what a tile touches in a buffer.

    `tile` (n, loops) is how many consecutive iterations of each loop the tile covers; a loop that
    does not move inside the tile counts 1. Each dimension spans `1 + sum(c * (t - 1))` elements.
    Returns (n, dims).
    """
    shape = np.ones((len(tile), len(access.dims)), dtype=np.int64)
    for dim, terms in enumerate(access.dims):
        for loop, coefficient in terms:
            shape[:, dim] += abs(coefficient) * (tile[:, loop] - 1)
    return shape


def footprint(access: Access, tile: Integers) -> Floats:
    """Elements of the bounding box that a tile touches in a buffer, (n,)."""
    return np.asarray(tile_shape(access, tile).prod(axis=1), dtype=np.float64)
