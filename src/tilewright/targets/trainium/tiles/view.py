"""A region of a buffer, which kernels use as a tensor or tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.tiles.buffer import Buffer
from tilewright.targets.trainium.tiles.dtypes import DType, Values
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.tiles.regular import patterns
from tilewright.targets.trainium.trace import Access, Memory, pattern, pattern_of

Shape = tuple[int, ...]


class Gather:
    """Positions that steps do not describe: arrays of partitions and offsets, broadcast together.

    `inside` is False for an index out of bounds, which must be masked. `leaving` contains the
    indices that are out of bounds: axis, its size, and the numbers.
    """

    __slots__ = ("by", "free", "inside", "leaving", "partition", "stride")

    def __init__(
        self,
        partition: NDArray[np.int64],
        free: NDArray[np.int64],
        inside: NDArray[np.bool_] | None = None,
        leaving: Sequence[tuple[int, int, NDArray[np.int64]]] = (),
        by: View | None = None,
        stride: int = 0,
    ) -> None:
        """`by` is the tile that contains some of the indices. The offsets grow by `stride` elements
        with each number in it; 0 if they depend on it in another way."""
        self.by = by
        self.stride = stride
        self.partition = partition
        self.free = free
        self.inside = inside
        self.leaving = leaving

    def first_partition(self, shape: Shape) -> int | None:
        """Partition of row 0 of an engine's operand, whose rows are consecutive partitions.

        None if the rows are not consecutive, or contain other elements than row 0, because only a
        transfer or the PE array moves elements between partitions. Rows and positions out of bounds
        are ignored.
        """
        inside = None if self.inside is None else np.broadcast_to(self.inside, shape)
        rows = np.arange(shape[0]).reshape(-1, *[1] * (len(shape) - 1))
        starts = np.broadcast_to(self.partition - rows, shape)
        free = np.broadcast_to(self.free, shape)
        if inside is None:
            alike = bool((starts == starts.flat[0]).all() and (free == free[:1]).all())
            return int(starts.flat[0]) if alike else None
        if not inside.any():
            return 0
        start = int(starts[inside][0])
        first = np.where(inside, free, -1).max(axis=0, keepdims=True)
        alike = bool(((starts == start) & (free == first))[inside].all())
        return start if alike else None

    def mapped(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Gather:
        """The positions with other axes: `change` is applied to every array."""
        inside = None if self.inside is None else change(self.inside)
        leaving = [(axis, size, change(numbers)) for axis, size, numbers in self.leaving]
        partition, free = change(self.partition), change(self.free)
        return Gather(partition, free, inside, leaving, self.by, self.stride)

    def complaint(self, outside: NDArray[np.bool_]) -> str:
        """A description of the indices that are out of bounds, which are those where `outside` is
        True."""
        words = []
        for axis, size, numbers in self.leaving:
            found = np.broadcast_to(numbers, outside.shape)[outside]
            low, high = int(found.min()), int(found.max())
            if low < 0 or high >= size:
                reach = f"{low}" if low == high else f"{low}..{high}"
                words.append(f"index {reach} of axis {axis}, which has the size {size},")
        return " and ".join(words)


class View:
    """A region of a buffer, with a step in partitions and one in elements along each axis."""

    __slots__ = ("buffer", "f0", "fsteps", "gather", "mask", "p0", "psteps", "shape")

    def __init__(
        self,
        buffer: Buffer,
        shape: Shape,
        psteps: Shape,
        fsteps: Shape,
        p0: int = 0,
        f0: int = 0,
        gather: Gather | None = None,
        mask: Mask | None = None,
    ) -> None:
        self.buffer = buffer
        self.shape = shape
        self.psteps = psteps
        self.fsteps = fsteps
        self.p0 = p0
        self.f0 = f0
        self.gather = gather
        self.mask = mask

    @property
    def memory(self) -> Memory:
        """The memory of the buffer."""
        return self.buffer.memory

    @property
    def dtype(self) -> DType:
        """Type of its elements."""
        return self.buffer.dtype

    @property
    def partitions(self) -> int:
        """Size of the first axis."""
        return self.shape[0]

    @property
    def columns(self) -> int:
        """Elements per partition."""
        return math.prod(self.shape[1:])

    @property
    def on_chip(self) -> bool:
        """Whether it is in SBUF or PSUM."""
        return self.buffer.memory != "hbm"

    def masked(self, mask: Mask | bool) -> View:
        """This region with a mask, in addition to the one that it has."""
        if mask is True:
            return self
        found = Mask(1, False, lambda: np.zeros((1,), bool)) if mask is False else mask
        assert isinstance(found, Mask)
        joined = found if self.mask is None else self.mask & found
        return View(
            self.buffer, self.shape, self.psteps, self.fsteps, self.p0, self.f0, self.gather, joined
        )

    def unmasked(self) -> View:
        """The region with all of its elements."""
        return View(
            self.buffer, self.shape, self.psteps, self.fsteps, self.p0, self.f0, self.gather
        )

    def access(self) -> Access:
        """The access record for the trace. The region must have been `checked`, or be in HBM."""
        record = self.buffer.record
        if self.gather is not None:
            return _gathered_access(self)
        dims = pattern_of(self.fsteps, self.shape)
        if self.buffer.axis < 0:
            return Access(record, 0, self.shape[0], self.f0, dims, self.fsteps[0])
        if self.psteps[0] < 2 and not any(self.psteps[1:]):
            return Access(record, self.p0, self.shape[0], self.f0, dims)
        reach = [step * (n - 1) for step, n in zip(self.psteps, self.shape, strict=True)]
        first = self.p0 + sum(min(0, r) for r in reach)
        last = self.p0 + sum(max(0, r) for r in reach)
        return Access(record, first, self.shape[0], self.f0, dims, lanes=last - first + 1)

    def values(self) -> Values:
        """The elements; a view of the buffer's storage if steps describe them."""
        data = self.buffer.storage()
        gather = self.gather
        if gather is not None:
            found: Values = data[gather.partition, gather.free]
            return np.broadcast_to(found, self.shape)
        row, size = self.buffer.row, data.itemsize
        strides = [(p * row + f) * size for p, f in zip(self.psteps, self.fsteps, strict=True)]
        return np.ndarray(self.shape, data.dtype, data, (self.p0 * row + self.f0) * size, strides)

    def write(self, values: Values, mask: NDArray[np.bool_] | None) -> None:
        """Replace the elements inside the mask. The values are already rounded."""
        buffer = self.buffer
        if self.gather is None:
            if buffer.data is None and mask is None and self._is_whole():
                kept = np.array(values, buffer.dtype.storage, order="C")
                if kept.shape != self.shape:
                    kept = np.broadcast_to(kept, self.shape).copy()
                buffer.data = kept.reshape(buffer.rows, buffer.row)
                return
            place = self.values()
            if mask is None:
                place[...] = values
            else:
                np.copyto(place, values, where=mask)
            return
        data = buffer.storage()
        partition = np.broadcast_to(self.gather.partition, self.shape)
        free = np.broadcast_to(self.gather.free, self.shape)
        if mask is None:
            data[partition, free] = values
        else:
            data[partition[mask], free[mask]] = np.broadcast_to(values, self.shape)[mask]

    def _is_whole(self) -> bool:
        """Whether it is the whole buffer as a matrix, in its own order."""
        buffer = self.buffer
        return (
            self.psteps == buffer.psteps
            and self.fsteps == buffer.fsteps
            and (self.shape == buffer.shape and buffer.axis <= 0)
        )

    def is_all(self) -> bool:
        """Whether it is a whole tensor of HBM in its own order, with any shape."""
        buffer = self.buffer
        if self.gather is not None or self.mask is not None or self.f0 or self.p0:
            return False
        axes = [(n, s) for n, s in zip(self.shape, self.fsteps, strict=True) if n != 1]
        reached = 1
        for size, step in reversed(axes):
            if step != reached:
                return False
            reached *= size
        return reached == buffer.rows * buffer.row

    def reshaped(self, shape: Shape) -> View:
        """The same elements with another shape, if this requires no reordering."""
        if math.prod(shape) != math.prod(self.shape):
            raise KernelError(
                "shape_mismatch", f"a tensor of shape {self.shape} cannot be reshaped to {shape}"
            )
        if self.gather is not None or self.mask is not None:
            raise KernelError("unsupported_reshape", "an indexed tile cannot be reshaped")
        if not any(self.psteps):
            fsteps = _steps_of(self.shape, self.fsteps, shape)
            return View(self.buffer, shape, (0,) * len(shape), fsteps, self.p0, self.f0)
        if any(self.psteps[1:]) or not shape or shape[0] != self.shape[0]:
            raise KernelError(
                "unsupported_reshape",
                f"reshape of {self.shape} to {shape} would move elements between partitions",
            )
        free = _steps_of(self.shape[1:], self.fsteps[1:], shape[1:])
        return View(
            self.buffer, shape, (self.psteps[0],) + (0,) * len(free), (self.fsteps[0], *free),
            self.p0, self.f0,
        )  # fmt: skip

    def broadcast(self, shape: Shape) -> View:
        """The region repeated along axes of size 1 without cost (step 0)."""
        if shape == self.shape and self.mask is None:
            return self
        if len(shape) < len(self.shape):
            raise KernelError("shape_mismatch", f"{self.shape} cannot be broadcast to {shape}")
        more = len(shape) - len(self.shape)
        old = (1,) * more + self.shape
        if any(size not in (1, wanted) for size, wanted in zip(old, shape, strict=True)):
            raise KernelError("shape_mismatch", f"{self.shape} cannot be broadcast to {shape}")
        zeros = (0,) * more
        if self.gather is not None:
            return View(self.buffer, shape, (0,) * len(shape), (0,) * len(shape), 0, 0, self.gather)

        def stretched(steps: Shape) -> Shape:
            return tuple(
                0 if size != wanted else step
                for step, size, wanted in zip(zeros + steps, old, shape, strict=True)
            )

        return View(
            self.buffer, shape, stretched(self.psteps), stretched(self.fsteps), self.p0, self.f0
        )


def whole(buffer: Buffer) -> View:
    """All of a buffer."""
    return View(buffer, buffer.shape, buffer.psteps, buffer.fsteps)


def _steps_of(shape: Shape, steps: Shape, wanted: Shape) -> Shape:
    """Steps of the elements of (shape, steps) in another shape, which must not reorder them."""
    merged: list[tuple[int, int]] = []  # (size, step) of sequences of contiguous axes
    for size, step in zip(shape, steps, strict=True):
        if size == 1:
            continue
        if merged and merged[-1][1] == step * size:
            merged[-1] = (merged[-1][0] * size, step)
        else:
            merged.append((size, step))
    found: list[int] = []
    for size in reversed(wanted):
        if size == 1:
            found.append(0)
            continue
        left, step = merged[-1]
        if left % size:
            raise KernelError(
                "unsupported_reshape", f"reshape of {shape} to {wanted} would move elements"
            )
        found.append(step)
        merged.pop()
        if left > size:
            merged.append((left // size, step * size))
    return tuple(reversed(found))


def _gathered_access(view: View) -> Access:
    """An access of the same extent and elements, with the runs of the row that has the most
    runs."""
    gather = view.gather
    assert gather is not None
    record = view.buffer.record
    partitions, columns = view.shape[0], view.columns
    free = np.broadcast_to(gather.free, view.shape).reshape(partitions, columns)
    lane = np.broadcast_to(gather.partition, view.shape).reshape(partitions, columns)
    breaks = (np.diff(free, axis=1) != 1) | (np.diff(lane, axis=1) != 0)
    runs = 1 + int(breaks.sum(axis=1).max())
    low, high = int(free.min()), int(free.max())
    run = max(1, columns // runs)
    runs = max(1, columns // run)
    on_chip = view.buffer.axis >= 0
    reach = high - low + 1 if on_chip else int(np.ptp(free, axis=1).max()) + 1
    # A run never begins where the previous one ends, because then they would be one run.
    spread = max(run + 1, -((run - reach) // (runs - 1))) if runs > 1 else 0
    dims = pattern(((spread, runs), (1, run)))
    if on_chip:
        first, last = int(lane.min()), int(lane.max())
        pieces = patterns(_of_one_row(view, free))
        return Access(record, first, partitions, low, dims, lanes=last - first + 1, pieces=pieces)
    step = -(max(0, high - low + 1 - reach) // (1 - partitions)) if partitions > 1 else 0
    return Access(record, 0, partitions, low, dims, step)


def _of_one_row(view: View, free: NDArray[np.int64]) -> list[int]:
    """The elements of the row with the most elements within bounds."""
    inside = view.gather.inside if view.gather is not None else None
    if inside is None:
        found: list[int] = free[0].tolist()
        return found
    taken = np.broadcast_to(inside, view.shape).reshape(free.shape)
    row = int(taken.sum(axis=1).argmax())
    found = free[row][taken[row]].tolist()
    return found or [0]
