"""Structure in random inputs, for instance rows of zeros or equal rows, at random places.

Values that are drawn one by one almost never contain such structure, so a kernel that is wrong only
where a row is zero, or where two rows are equal, would pass every comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

FEWEST = 4
"""Minimum size of an axis whose slices get structure."""
_END = 0.9  # probability that the first, or the last, slice along an axis is zero
_BAND = 4  # a band has at most 1 / _BAND of the slices of an axis
_MOST_DIGITS = 8  # after the binary point of rounded floats
_ONE_SIGN = 0.75  # probability that integers have one sign
_WHOLE = 0.125  # probability of an array in which only one element or a diagonal is not zero


def structured(values: Array, rng: np.random.Generator) -> Array:
    """`values`, which are changed in place as follows.

    Along each axis, a band of slices at a random place becomes copies of its first slice. A block
    gets the same value everywhere, and a band along one axis becomes zero. With a high probability,
    the first and the last slice along each axis become zero, too.
    """
    axes = [axis for axis, size in enumerate(values.shape) if size >= FEWEST]
    if not axes:
        return values
    for axis in axes:
        copied = _along(values, axis, 2, rng)
        copied[:] = copied[:1].copy()
    block = _block(values, rng)
    values[block] = values[tuple(part.start for part in block)]
    _along(values, int(rng.choice(axes)), 1, rng)[:] = 0
    for axis in axes:
        for place in (0, -1):
            if rng.random() < _END:
                np.moveaxis(values, axis, 0)[place] = 0
    return values


def one_per_row(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of an array with one number for each row of an array of this shape."""
    return (shape[0], *(1 for _ in shape[1:]))


def structured_floats(values: Array, rng: np.random.Generator) -> Array:
    """`structured` for floats: half of the rows are first rounded to multiples of a power of two,
    1/2 to 1/256.

    Random floats are almost never halfway between two integers, and almost never equal, so a kernel
    that rounds such values in another way would pass every comparison.
    """
    rows = one_per_row(values.shape)
    steps = np.exp2(-rng.integers(1, _MOST_DIGITS, rows, endpoint=True)).astype(values.dtype)
    rounded = np.rint(values / steps) * steps
    return structured(np.where(rng.random(rows) < 0.5, rounded, values), rng)


def structured_integers(values: Array, rng: np.random.Generator) -> Array:
    """`structured` for integers, with further changes.

    The results are exact for all inputs, so more of the values may be equal. Half of an axis may be
    zero, and most arrays have values of one sign. In a few arrays, all values except one element or
    a diagonal are zero.
    """
    values = structured(values, rng)
    axes = [axis for axis, size in enumerate(values.shape) if size >= FEWEST]
    if axes and rng.random() < 0.5:
        halves = np.array_split(np.moveaxis(values, int(rng.choice(axes)), 0), 2)
        halves[int(rng.integers(2))][:] = 0
    if rng.random() < _ONE_SIGN:
        np.invert(values, out=values, where=values < 0)  # -(-128) does not fit int8, ~(-128) does
        if rng.random() < 0.5 and np.dtype(values.dtype).kind == "i":
            np.negative(values, out=values)
    if rng.random() < _WHOLE:
        kept = _one_or_diagonal(values.shape, rng)
        values[~kept] = 0
    return values


def _along(values: Array, axis: int, least: int, rng: np.random.Generator) -> Array:
    """A view of a band of at least `least` slices along an axis, which comes first."""
    slices = np.moveaxis(values, axis, 0)
    size = int(rng.integers(least, max(least, len(slices) // _BAND), endpoint=True))
    first = int(rng.integers(len(slices) - size, endpoint=True))
    return slices[first : first + size]


def _block(values: Array, rng: np.random.Generator) -> tuple[slice, ...]:
    """The indices of a block, which covers at most half of each axis."""
    block = []
    for count in values.shape:
        size = int(rng.integers(1, max(1, count // 2), endpoint=True))
        first = int(rng.integers(count - size, endpoint=True))
        block.append(slice(first, first + size))
    return tuple(block)


def _one_or_diagonal(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.bool_]:
    kept = np.zeros(shape, np.bool_)
    if rng.random() < 0.5:
        kept.reshape(-1)[rng.integers(kept.size)] = True
    else:
        diagonal = np.arange(min(shape))
        kept[(diagonal,) * len(shape)] = True
    return kept
