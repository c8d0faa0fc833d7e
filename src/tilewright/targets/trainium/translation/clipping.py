"""Converts regions with masks to regions without: the elements that masks and bounds leave, if they
form boxes."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.targets.trainium.execution import BY_ELEMENT
from tilewright.targets.trainium.recording import Recorded
from tilewright.targets.trainium.tiles.fitting import bounds_of, fit_mask
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.tiles.view import View

Dims = tuple[tuple[int, int], ...]
Flags = NDArray[np.bool_]
Ranges = tuple[tuple[int, int], ...]


class UntranslatableError(Exception):
    """A construct that cannot be translated to NKI 2, in words, and its line in the kernel."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True)
class Place:
    """Elements of a tensor from `offset` along (step, count) pairs, the partition's first.

    Either no step of the other pairs is negative, or all of them are. On the chip, the tensor is a
    matrix of partitions, row by row.

    With `rows`, each partition begins at a number of a tile [P, 1] instead, counted along `axis` of
    the tensor.
    """

    tensor: int
    offset: int
    dims: Dims
    rows: Place | None = None
    axis: int = 0

    @property
    def columns(self) -> int:
        """Number of elements of one partition."""
        return math.prod(count for _, count in self.dims[1:])

    @property
    def falls(self) -> bool:
        """Whether the elements of a partition are in reverse order."""
        return any(step < 0 for step, _ in self.dims)


MOST_BOXES = 32
"""Maximum number of boxes into which a mask is divided."""
Operands = tuple[list[Place], list[Place]]


def places(entry: Recorded) -> list[Operands]:
    """The places that an instruction reads and writes, for each box of elements that its mask
    leaves.

    Raises `UntranslatableError` if there are too many boxes, or an index is not affine.
    """
    views, mask = (*entry.reads, *entry.writes), mask_of(entry)
    whole = all(view.gather is None for view in views)
    if whole and (mask is None or mask.always):
        boxes = [[_place(view, None) for view in views]]
    else:
        boxes = [
            [_place(view, ranges) for view, ranges in zip(views, kept, strict=True)]
            for kept in _ranges(entry, mask)
        ]
    count = len(entry.reads)
    return [(found[:count], found[count:]) for found in boxes]


def mask_of(entry: Recorded) -> Mask | None:
    """The mask of an instruction, joined with those of its results."""
    mask = entry.mask
    for view in entry.writes:
        if view.mask is not None:
            mask = view.mask if mask is None else mask & view.mask
    return mask


def _ranges(entry: Recorded, mask: Mask | None) -> list[list[Ranges]]:
    """The indices of each axis that are used, for each box and operand."""
    opcode, views = entry.instruction.opcode, (*entry.reads, *entry.writes)
    if opcode == "nc_matmul":
        of_product = _of_product(entry, mask)
        return [of_product] if of_product else []
    shape = (entry.reads or entry.writes)[0].shape
    size = math.prod(shape)
    allowed = np.ones(shape, bool)
    if mask is not None and not mask.always:
        if mask.always is False:
            return []
        allowed &= fit_mask(mask.array, shape)
    for view in views:
        inside = None if view.gather is None else view.gather.inside
        if inside is not None and math.prod(view.shape) == size:
            allowed &= np.broadcast_to(inside, view.shape).reshape(shape)
    if not allowed.any():
        return []
    boxes = _boxes(allowed) if opcode in BY_ELEMENT else [allowed]
    return [_of_box(entry, box) for box in boxes]


def _of_box(entry: Recorded, allowed: Flags) -> list[Ranges]:
    """For each operand, the indices that are used for these elements."""
    shape, size = allowed.shape, allowed.size
    rows = _box(allowed)[0]
    found: list[Ranges] = []
    views = (*entry.reads, *entry.writes)
    for view in views:
        if math.prod(view.shape) == size:
            found.append(_box(allowed.reshape(view.shape)))
        elif entry.instruction.opcode == "tensor_reduce" and view is entry.writes[0]:
            axes: tuple[int, ...] = entry.settings["axes"]  # type: ignore[assignment]
            found.append(_box(allowed.any(axis=axes).reshape(view.shape)))
        elif view.shape[0] == shape[0]:
            found.append((rows, *((0, size) for size in view.shape[1:])))
        else:
            found.append(_all(view))
    return found


def _of_product(entry: Recorded, mask: Mask | None) -> list[Ranges] | None:
    """The mask of a product applies to its result. Columns of operands that are out of bounds are
    left out."""
    result = entry.writes[0]
    leaving = any(v.gather is not None and v.gather.inside is not None for v in entry.reads)
    if (mask is None or mask.always) and result.gather is None and not leaving:
        return [_all(view) for view in (*entry.reads, result)]
    allowed = np.ones(result.shape, bool)
    if mask is not None and not mask.always:
        allowed &= fit_mask(mask.array, result.shape)
    if result.gather is not None and result.gather.inside is not None:
        allowed &= np.broadcast_to(result.gather.inside, result.shape)
    stationary, moving = entry.reads[0], entry.reads[-1]
    free = [axis for axis, size in enumerate(stationary.shape) if axis and size > 1]
    if len(free) > 1 or len(moving.shape) != len(result.shape) or len(entry.reads) != 2:
        raise UntranslatableError("a product under a mask")
    within = _within_bounds(stationary), _within_bounds(moving)
    if any(bounds[0] != (0, stationary.shape[0]) for bounds in within):
        raise UntranslatableError("a product that sums elements out of bounds")
    defined = np.zeros_like(allowed)
    rows = within[0][free[0]] if free else (0, 1)
    defined[tuple(slice(*bounds) for bounds in (rows, *within[1][1:]))] = True
    allowed &= defined
    if not allowed.any():
        return None
    kept = _box(allowed)
    left = list(_all(stationary))
    if free:
        left[free[0]] = kept[0]
    return [tuple(left), (_all(moving)[0], *kept[1:]), kept]


def _within_bounds(view: View) -> Ranges:
    """The indices of each axis that are within bounds."""
    if view.gather is None or view.gather.inside is None:
        return _all(view)
    inside = np.broadcast_to(view.gather.inside, view.shape)
    return _box(inside) if inside.any() else tuple((0, 0) for _ in view.shape)


def _all(view: View) -> Ranges:
    return tuple((0, size) for size in view.shape)


def _boxes(allowed: Flags) -> list[Flags]:
    """The elements as boxes: by the axis along which they change least often."""
    bounds = bounds_of(allowed)
    inner = allowed[bounds]
    if inner.all():
        return [allowed]
    # Only inside the bounds: a cut at the edge would leave the same elements.
    cuts = [
        [
            int(cut) + 1 + bounds[axis].start
            for cut in np.flatnonzero(np.diff(inner, axis=axis).any(axis=_others(inner, axis)))
        ]
        for axis in range(allowed.ndim)
    ]
    axis = min((a for a in range(allowed.ndim) if cuts[a]), key=lambda a: len(cuts[a]))
    if len(cuts[axis]) >= MOST_BOXES:
        raise UntranslatableError("a mask that leaves no box of elements")
    found: list[Flags] = []
    for start, stop in itertools.pairwise([0, *cuts[axis], allowed.shape[axis]]):
        part = np.zeros_like(allowed)
        chosen = tuple(slice(start, stop) if a == axis else slice(None) for a in range(part.ndim))
        part[chosen] = allowed[chosen]
        if part.any():
            found.extend(_boxes(part))
    if len(found) > MOST_BOXES:
        raise UntranslatableError("a mask that leaves no box of elements")
    return found


def _others(allowed: Flags, axis: int) -> tuple[int, ...]:
    return tuple(a for a in range(allowed.ndim) if a != axis)


def _box(allowed: Flags) -> Ranges:
    """The indices of each axis within which all elements are allowed, and no others are."""
    bounds = bounds_of(allowed)
    if not allowed[bounds].all():
        raise UntranslatableError("a mask that leaves no box of elements")
    return tuple((part.start, part.stop) for part in bounds)


def _place(view: View, ranges: Ranges | None) -> Place:
    buffer = view.buffer
    row = buffer.row if buffer.axis >= 0 else 0
    if view.gather is not None:
        offset, steps = _affine(view, row, ranges or _all(view))
        counts = [stop - start for start, stop in ranges or _all(view)]
    else:
        steps = [p * row + f for p, f in zip(view.psteps, view.fsteps, strict=True)]
        offset, counts = view.p0 * row + view.f0, list(view.shape)
        if ranges is not None:
            offset += sum(step * start for step, (start, _) in zip(steps, ranges, strict=True))
            counts = [stop - start for start, stop in ranges]
    pairs = list(zip(steps, counts, strict=True))
    first, free = pairs[0], [pair for pair in pairs[1:] if pair[1] != 1]
    gather = view.gather
    if gather is not None and gather.by is not None:
        rows, dims = _rows(gather.by, view, ranges), ((gather.stride, first[1]), *free)
        return Place(buffer.record.id, offset, dims, rows, _axis_of(buffer.shape, gather.stride))
    if first[1] == 1:
        reach = 1 + sum(abs(step) * (count - 1) for step, count in free)
        first = (row, 1) if row else (first[0] or reach, 1)
    falling = {step < 0 for step, _ in free}
    if first[0] < 0 or len(falling) > 1:
        raise UntranslatableError("an index that counts down")
    return Place(buffer.record.id, offset, (first, *_joined(free, row > 0)))


def _rows(chosen: View, view: View, ranges: Ranges | None) -> Place:
    """The part of a tile of indices that belongs to the rows of a region which are used."""
    if chosen.shape != (view.shape[0], 1):
        raise UntranslatableError("an index that is read from a tile of several columns")
    return _place(chosen, None if ranges is None else (ranges[0], (0, 1)))


def _axis_of(shape: tuple[int, ...], stride: int) -> int:
    """The axis of a tensor in HBM whose indices are this many elements apart."""
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    if stride not in strides:
        raise UntranslatableError("an index that is computed from a tile")
    return strides.index(stride)


def _joined(free: list[tuple[int, int]], on_chip: bool) -> list[tuple[int, int]]:
    """At least one axis, which on-chip tensors need."""
    return free or ([(1, 1)] if on_chip else [])


def _affine(view: View, row: int, ranges: Ranges) -> tuple[int, list[int]]:
    """Offset and steps of a region that is indexed with grids."""
    gather = view.gather
    assert gather is not None
    if gather.by is not None and gather.stride <= 0:
        raise UntranslatableError("an index that is computed from a tile")
    address = np.broadcast_to(gather.partition * row + gather.free, view.shape)
    part = address[tuple(slice(*bounds) for bounds in ranges)]
    origin = int(part[(0,) * part.ndim])
    steps, expected = [], np.full((1,) * part.ndim, origin, np.int64)
    for axis, count in enumerate(part.shape):
        place = tuple(int(a == axis and count > 1) for a in range(part.ndim))
        steps.append(int(part[place]) - origin)
        shape = tuple(count if a == axis else 1 for a in range(part.ndim))
        expected = expected + (np.arange(count) * steps[-1]).reshape(shape)
    if not np.array_equal(part, np.broadcast_to(expected, part.shape)):
        raise UntranslatableError("an index that is not affine")
    return origin, steps
