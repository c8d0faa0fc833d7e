"""Index expressions of NKI 1: grids from `arange` and `mgrid`, and masks from comparisons of
them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.targets.trainium.errors import KernelError

Grid = NDArray[np.int64]
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "//": operator.floordiv, "%": operator.mod, "*": operator.mul,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


class Index:
    """A grid of numbers: `offset` plus a step along each axis, or an array if it is not affine.

    Axes have counts; an axis of count 1 is broadcast, as in numpy.
    """

    __slots__ = ("_array", "by", "counts", "offset", "steps", "times")

    def __init__(
        self,
        offset: int,
        steps: tuple[int, ...],
        counts: tuple[int, ...],
        array: Grid | None = None,
        by: object = None,
        times: int = 0,
    ) -> None:
        """`by` is the tile that contains the numbers, if there is one. The numbers are then those
        of the tile multiplied by `times`, plus an affine grid; 0 if they depend on it otherwise."""
        self.by = by
        self.times = times
        self.offset = offset
        self.steps = steps
        self.counts = counts
        self._array = array

    @property
    def is_affine(self) -> bool:
        """Whether steps describe the numbers."""
        return self._array is None

    @property
    def array(self) -> Grid:
        """The numbers, with an axis of count 1 for each step of zero."""
        if self._array is not None:
            return self._array
        rank = len(self.counts)
        total: Any = np.int64(self.offset)
        for axis, (step, count) in enumerate(zip(self.steps, self.counts, strict=True)):
            if step:
                shape = [1] * rank
                shape[axis] = count
                total = total + (np.arange(count, dtype=np.int64) * step).reshape(shape)
        return np.asarray(total).reshape((1,) * (rank - np.ndim(total)) + np.shape(total))

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest number."""
        if self._array is not None:
            return int(self._array.min()), int(self._array.max())
        low = high = self.offset
        for step, count in zip(self.steps, self.counts, strict=True):
            reach = step * (count - 1)
            if reach < 0:
                low += reach
            else:
                high += reach
        return low, high

    def extended(self, rank: int) -> Index:
        """The grid with additional axes of count 1 in front, up to `rank` axes."""
        more = rank - len(self.counts)
        if more <= 0:
            return self
        if self._array is not None:
            array = self._array.reshape((1,) * more + self._array.shape)
            return _from_array(array, self.by, self.times)
        return Index(self.offset, (0,) * more + self.steps, (1,) * more + self.counts)

    def axes(self, key: tuple[Any, ...]) -> Index:
        """`[:, None]` and similar keys: the axes are kept, and axes of count 1 are added."""
        steps: list[int] = []
        counts: list[int] = []
        axis = 0
        for item in key:
            if item is None:
                steps.append(0)
                counts.append(1)
            elif isinstance(item, slice) and item == slice(None) and axis < len(self.counts):
                steps.append(self.steps[axis])
                counts.append(self.counts[axis])
                axis += 1
            else:
                raise KernelError(
                    "unsupported_indexing",
                    "an index grid takes only ':' and None between brackets, such as [:, None]",
                )
        if axis != len(self.counts) or self._array is not None:
            raise KernelError(
                "unsupported_indexing", "an index grid needs ':' for each of its axes"
            )
        return Index(self.offset, tuple(steps), tuple(counts))


def _from_array(array: Grid, by: object = None, times: int = 0) -> Index:
    return Index(0, (0,) * array.ndim, array.shape, array, by, times)


def of_tile(values: Grid, tile: object) -> Index:
    """The numbers in a tile as a grid."""
    return _from_array(values, tile, 1)


def arange(start: int, stop: int, step: int = 1) -> Index:
    """The numbers of a range as a grid with one axis."""
    return Index(start, (step,), (max(0, -(-(stop - start) // step)),))


def combined(symbol: str, left: Index | int, right: Index | int) -> Index:
    """Arithmetic on grids and integers: + - * // %."""
    if symbol in ("+", "-"):
        return _added(left, right, 1 if symbol == "+" else -1)
    if symbol == "*" and (isinstance(left, int) or isinstance(right, int)):
        grid, factor = (left, right) if isinstance(left, Index) else (right, left)
        assert isinstance(grid, Index)
        assert isinstance(factor, int)
        if grid.is_affine:
            return Index(grid.offset * factor, tuple(s * factor for s in grid.steps), grid.counts)
        return _from_array(grid.array * factor, grid.by, grid.times * factor)
    if symbol not in _OPERATORS or symbol in ("<", "<=", ">", ">=", "==", "!="):
        raise KernelError("unsupported_indexing", f"an index grid has no operator {symbol}")
    if isinstance(right, int) and right == 0 and symbol != "*":
        raise KernelError("unsupported_indexing", f"an index is divided by zero ({symbol} 0)")
    array = _OPERATORS[symbol](_numbers(left), _numbers(right))
    return _from_array(np.asarray(array, np.int64), _tile_of(left, right))


def _numbers(value: Index | int) -> Any:
    return value.array if isinstance(value, Index) else value


def _tile_of(*grids: Index | int) -> object:
    return next((g.by for g in grids if isinstance(g, Index) and g.by is not None), None)


def _added(left: Index | int, right: Index | int, sign: int) -> Index:
    if isinstance(left, int):
        assert isinstance(right, Index)
        if right.is_affine:
            return Index(
                left + sign * right.offset, tuple(sign * s for s in right.steps), right.counts
            )
        return _from_array(left + sign * right.array, right.by, sign * right.times)
    if isinstance(right, int):
        if left.is_affine:
            return Index(left.offset + sign * right, left.steps, left.counts)
        return _from_array(left.array + sign * right, left.by, left.times)
    rank = max(len(left.counts), len(right.counts))
    left, right = left.extended(rank), right.extended(rank)
    counts = []
    for one, other in zip(left.counts, right.counts, strict=True):
        if one != other and 1 not in (one, other):
            raise KernelError(
                "unsupported_indexing",
                f"index grids of shapes {list(left.counts)} and {list(right.counts)} do not fit",
            )
        counts.append(max(one, other))
    if not (left.is_affine and right.is_affine):
        times = left.times + sign * right.times if left.by is None or right.by is None else 0
        return _from_array(left.array + sign * right.array, _tile_of(left, right), times)
    steps = tuple(a + sign * b for a, b in zip(left.steps, right.steps, strict=True))
    return Index(left.offset + sign * right.offset, steps, tuple(counts))


class Mask:
    """The elements that an operation affects: comparisons of grids, combined with `&`.

    `always` is True or False if this holds for every element, and None otherwise.
    """

    def __init__(
        self,
        rank: int,
        always: bool | None,
        find: Callable[[], NDArray[np.bool_]],
        comparison: tuple[str, Index] | None = None,
    ):
        """`comparison` is an index and its comparison with 0, if the mask consists only of it."""
        self.comparison = comparison
        self.rank = rank
        self.always = always
        self._find = find

    @cached_property
    def array(self) -> NDArray[np.bool_]:
        """True inside the mask; axes of count 1 are broadcast."""
        return self._find()

    def __and__(self, other: Mask | bool) -> Mask:
        if isinstance(other, bool):
            return (
                self if other else Mask(self.rank, False, lambda: np.zeros((1,) * self.rank, bool))
            )
        always, comparison = None, None
        if self.always is False or other.always is False:
            always = False
        elif self.always:
            always, comparison = other.always, other.comparison
        elif other.always:
            always, comparison = self.always, self.comparison
        rank = max(self.rank, other.rank)
        return Mask(rank, always, lambda: np.logical_and(self.array, other.array), comparison)


def compared(symbol: str, left: Index | int, right: Index | int) -> Mask:
    """A comparison of index grids."""
    difference = _added(left, right, -1)
    low, high = difference.bounds
    return Mask(
        len(difference.counts),
        _constant(symbol, low, high),
        lambda: np.asarray(_OPERATORS[symbol](difference.array, 0)),
        (symbol, difference),
    )


def _constant(symbol: str, low: int, high: int) -> bool | None:
    """The result of `x symbol 0`, if it is the same for all x from `low` to `high`; None
    otherwise."""
    if symbol in ("==", "!="):
        if low == high == 0:
            return symbol == "=="
        return None if low <= 0 <= high else symbol == "!="
    at_low = bool(_OPERATORS[symbol](low, 0))
    return at_low if at_low == bool(_OPERATORS[symbol](high, 0)) else None
