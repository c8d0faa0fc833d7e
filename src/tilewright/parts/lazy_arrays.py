"""Arrays whose elements are computed whenever they are read, because storing all elements would
take gigabytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Part = Callable[[slice], Array]
"""The elements of a range, in row-major order, as a flat array."""


def computed(part: Part, shape: tuple[int, ...]) -> Array:
    """Such an array. numpy functions accept it, and reshaping or slicing it computes no
    elements.
    """
    return cast(Array, _Computed(part, shape, 0))


def as_read(values: object) -> Array:
    """The values as an array. An array that is computed when it is read is returned unchanged."""
    return cast(Array, values) if isinstance(values, _Computed) else np.asarray(values)


class _Computed:
    """A range of the elements, from `first` on."""

    def __init__(self, part: Part, shape: tuple[int, ...], first: int) -> None:
        self._part = part
        self._shape = shape
        self._first = first

    def reshape(self, *shape: Any) -> _Computed:
        given = np.broadcast_to(np.int8(0), self._shape).reshape(*shape).shape
        return _Computed(self._part, given, self._first)

    def __getitem__(self, index: Any) -> Any:
        if len(self._shape) != 1 or not isinstance(index, slice) or index.step not in (None, 1):
            return np.asarray(self)[index]
        first, end, _ = index.indices(self._shape[0])
        return _Computed(self._part, (max(0, end - first),), self._first + first)

    def __array__(self, *_: object, **__: object) -> Array:
        part = slice(self._first, self._first + math.prod(self._shape))
        return self._part(part).reshape(self._shape)
