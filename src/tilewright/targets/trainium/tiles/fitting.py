"""Converts masks and values to the shape of their region."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.tiles.dtypes import Values

Shape = tuple[int, ...]


def fit_mask(mask: NDArray[np.bool_], shape: Shape) -> NDArray[np.bool_]:
    """A mask over a region. If it has more axes than the region, any element along them counts."""
    try:
        return np.broadcast_to(mask, shape)
    except ValueError:
        pass
    found: Any = mask
    while found.ndim > len(shape) and found.shape[-1] == 1:
        found = found[..., 0]
    shared = range(min(found.ndim, len(shape)))
    extra = tuple(i for i in shared if shape[i] == 1 and found.shape[i] > 1)
    if extra:
        found = found.any(axis=extra, keepdims=True)
    if found.ndim > len(shape):
        found = found.any(axis=tuple(range(len(shape), found.ndim)))
    while found.ndim < len(shape):
        found = found[..., None]
    try:
        return np.broadcast_to(found, shape)
    except ValueError:
        raise KernelError(
            "unsupported_expression_in_mask",
            f"a mask of shape {mask.shape} does not fit a tile of shape {shape}",
        ) from None


def bounds_of(mask: NDArray[np.bool_]) -> tuple[slice, ...]:
    """The smallest box around the elements where a mask is true; there must be one."""
    found = []
    for axis in range(mask.ndim):
        numbers = np.flatnonzero(mask.any(axis=tuple(a for a in range(mask.ndim) if a != axis)))
        found.append(slice(int(numbers[0]), int(numbers[-1]) + 1))
    return tuple(found)


def fits(shape: Shape, wanted: Shape) -> bool:
    """Whether values of a shape can be written to a region with another shape without
    reordering."""
    if shape == wanted:
        return True
    if math.prod(shape) == math.prod(wanted):
        same = [s for s in shape if s > 1] == [s for s in wanted if s > 1]
        return same or shape[:1] == wanted[:1]
    more = len(wanted) - len(shape)
    return more >= 0 and all(
        size in (1, other) for size, other in zip((1,) * more + shape, wanted, strict=True)
    )


def fit_values(values: Values, shape: Shape) -> Values:
    """Values in the shape of a region: axes of size 1 are added or removed, and free axes are
    regrouped."""
    if values.shape == shape:
        return values
    if not fits(values.shape, shape):
        raise KernelError(
            "store_dst_shape_smaller_than_other_shape",
            f"values of shape {values.shape} do not fit a region of shape {shape}",
        )
    if values.size == math.prod(shape):
        return values.reshape(shape)
    return np.broadcast_to(values, shape)
