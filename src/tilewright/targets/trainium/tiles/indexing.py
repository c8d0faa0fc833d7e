"""The meaning of `tensor[key]` with slices and numbers, index grids, or both."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.tiles.index import Index, Mask
from tilewright.targets.trainium.tiles.view import Gather, View


def indexed(view: View, key: object, language: int) -> View:
    """The region `view[key]`."""
    items = key if isinstance(key, tuple) else (key,)
    if len(items) == 1 and isinstance(items[0], (Mask, bool)):
        return view.masked(items[0])
    items = _filled(items, len(view.shape))
    found = _gridded(view, items) or sliced(view, items)
    if found is not None:
        return found
    grids = [item for item in items if isinstance(item, Index)]
    for grid in grids:
        if len(grid.counts) == 1 and grid.counts[0] > 1:
            raise KernelError(
                "1d_arange_not_supported", "an index from arange needs [:, None] or [None, :]"
            )
    if view.gather is not None:
        return _indexed_again(view, items)
    axes = _axes(view, items, grids, language)
    return _composed(view, items, axes)


def sliced(view: View, items: tuple[object, ...]) -> View | None:
    """The region for numbers and slices within bounds, which most keys are; None for other keys."""
    if view.gather is not None:
        return None
    p0, f0 = view.p0, view.f0
    shape: list[int] = []
    psteps: list[int] = []
    fsteps: list[int] = []
    on_chip = view.buffer.axis >= 0
    for item, size, pstep, fstep in zip(items, view.shape, view.psteps, view.fsteps, strict=True):
        if type(item) is int:
            at = item + size if item < 0 else item
            if not 0 <= at < size:
                return None
            p0 += at * pstep
            f0 += at * fstep
            if pstep and on_chip:  # a single partition is still a tile
                shape.append(1)
                psteps.append(0)
                fsteps.append(0)
            continue
        if type(item) is not slice:
            return None
        start, stop, step = item.start, item.stop, item.step
        if step is None:
            step = 1
        elif type(step) is not int or step < 1:
            return None
        if start is None:
            start = 0
        if stop is None:
            stop = size
        if type(start) is not int or type(stop) is not int or not 0 <= start < stop <= size:
            return None
        p0 += start * pstep
        f0 += start * fstep
        shape.append((stop - start - 1) // step + 1)
        psteps.append(pstep * step)
        fsteps.append(fstep * step)
    if on_chip and len(shape) < 2:
        more = 2 - len(shape)
        shape, psteps, fsteps = shape + [1] * more, psteps + [0] * more, fsteps + [0] * more
    elif not shape:
        shape, psteps, fsteps = [1], [0], [0]
    return View(view.buffer, tuple(shape), tuple(psteps), tuple(fsteps), p0, f0, None, view.mask)


def _gridded(view: View, items: tuple[object, ...]) -> View | None:
    """The region for numbers and affine grids within bounds, as most kernels of NKI 1 write keys;
    else None.
    """
    rank = max((len(item.counts) for item in items if type(item) is Index), default=0)
    if rank < 2 or view.gather is not None:
        return None
    p0, f0 = view.p0, view.f0
    shape, psteps, fsteps = [1] * rank, [0] * rank, [0] * rank
    for item, size, pstep, fstep in zip(items, view.shape, view.psteps, view.fsteps, strict=True):
        if type(item) is int:
            low = high = offset = item + size if item < 0 else item
        elif type(item) is Index and item.is_affine:
            counts = item.counts
            if len(counts) == 1 and counts[0] > 1:
                return None
            low = high = offset = item.offset
            axis = rank - len(counts)
            for step, count in zip(item.steps, counts, strict=True):
                if count > shape[axis]:
                    shape[axis] = count
                if step:
                    psteps[axis] += step * pstep
                    fsteps[axis] += step * fstep
                    reach = step * (count - 1)
                    if reach < 0:
                        low += reach
                    else:
                        high += reach
                axis += 1
        else:
            return None
        if low < 0 or high >= size:
            return None
        p0 += offset * pstep
        f0 += offset * fstep
    return View(view.buffer, tuple(shape), tuple(psteps), tuple(fsteps), p0, f0, None, view.mask)


def part(view: View, box: tuple[slice, ...]) -> View:
    """The region that these indices of each axis of the view take."""
    if view.gather is None:
        found = sliced(view, box)
        assert found is not None
        return found
    gather = view.gather.mapped(lambda array: np.broadcast_to(array, view.shape)[box])
    zeros = (0,) * len(box)
    return View(view.buffer, gather.partition.shape, zeros, zeros, 0, 0, gather, view.mask)


def _filled(items: tuple[object, ...], rank: int) -> tuple[object, ...]:
    """The key with a slice for each axis that it or `...` omits."""
    if len(items) == rank and not any(item is Ellipsis for item in items):
        return items
    if any(item is Ellipsis for item in items):
        at = next(i for i, item in enumerate(items) if item is Ellipsis)
        more = rank - (len(items) - 1)
        items = (*items[:at], *(slice(None),) * max(0, more), *items[at + 1 :])
    if len(items) > rank:
        raise KernelError("rank", f"{len(items)} indices for a tensor of {rank} axes")
    return (*items, *(slice(None),) * (rank - len(items)))


class _Axis:
    """The index of one axis of the view, as a function of the axes of the result."""

    __slots__ = ("grid", "inside")

    def __init__(self, grid: Index, size: int) -> None:
        self.grid = grid
        low, high = grid.bounds
        self.inside = low >= 0 and high < size


def _axes(view: View, items: tuple[object, ...], grids: list[Index], language: int) -> list[_Axis]:
    """For each axis of the view, its index as a function of all axes of the result."""
    slices = sum(isinstance(item, slice) for item in items)
    buffer = view.buffer
    partition = next((a for a, step in enumerate(view.psteps) if step), None)
    kept = [a for a, item in enumerate(items) if isinstance(item, slice)]
    if not grids:
        keeps_partition = partition is not None and partition not in kept and buffer.axis >= 0
        if keeps_partition:  # a single partition is still a tile
            assert partition is not None
            kept = sorted([*kept, partition])
        rank = max(len(kept), 2 if buffer.axis >= 0 else 1)
        place = {axis: i for i, axis in enumerate(kept)}
    else:
        rank = max([len(grid.counts) for grid in grids] + [slices])
        used = [any(g.extended(rank).counts[d] > 1 for g in grids) for d in range(rank)]
        free = [d for d in range(rank) if not used[d]]
        if len(free) < slices:  # more axes after those of the grids
            more = slices - len(free)
            grids_rank, rank = rank, rank + more
            free += list(range(grids_rank, rank))
            items = tuple(
                _with_axes_after(item.extended(grids_rank), more)
                if isinstance(item, Index)
                else item
                for item in items
            )
        place = dict(zip(kept, free, strict=False))
    return [
        _Axis(_grid(item, axis, view.shape[axis], place.get(axis), rank, language),
              view.shape[axis])
        for axis, item in enumerate(items)
    ]  # fmt: skip


def _with_axes_after(grid: Index, more: int) -> Index:
    if grid.is_affine:
        return Index(grid.offset, grid.steps + (0,) * more, grid.counts + (1,) * more)
    array = grid.array
    shape = array.shape + (1,) * more
    return Index(0, (0,) * len(shape), shape, array.reshape(shape), grid.by, grid.times)


def _grid(item: object, axis: int, size: int, place: int | None, rank: int, language: int) -> Index:
    if isinstance(item, Index):
        return item.extended(rank)
    counts, steps = [1] * rank, [0] * rank
    if isinstance(item, bool) or not isinstance(item, (int, slice)):
        raise KernelError(
            "unsupported_indexing",
            f"axis {axis} is indexed with {_described(item)}: expected a number, a slice or a grid",
        )
    if isinstance(item, int):
        return Index(item + size if -size <= item < 0 else item, tuple(steps), tuple(counts))
    start, stop, step = _slice(item, size)
    count = max(0, -(-(stop - start) // step))
    if count == 0:
        raise KernelError("tensor_access_out_of_bound", f"the slice of axis {axis} is empty")
    assert place is not None
    counts[place], steps[place] = count, step
    return Index(start, tuple(steps), tuple(counts))


def _slice(item: slice, size: int) -> tuple[int, int, int]:
    for part in (item.start, item.stop, item.step):
        if part is not None and (isinstance(part, bool) or not isinstance(part, int)):
            raise KernelError(
                "unsupported_indexing",
                f"the bounds and the step of a slice must be integers, not {_described(part)}",
            )
    step = 1 if item.step is None else item.step
    if step < 1:
        raise KernelError("unsupported_indexing", f"a slice has the step {step}: it must be >= 1")
    start = 0 if item.start is None else item.start
    stop = size if item.stop is None else item.stop
    return (start + size if start < 0 else start), (stop + size if stop < 0 else stop), step


def _described(item: object) -> str:
    if isinstance(item, View):
        return "a tile"
    return "None" if item is None else f"a value of type {type(item).__name__}"


def _composed(view: View, items: tuple[object, ...], axes: list[_Axis]) -> View:
    rank = len(axes[0].grid.counts) if axes else 0
    shape = tuple(max(a.grid.counts[d] for a in axes) for d in range(rank))
    if all(axis.inside for axis in axes) and all(axis.grid.is_affine for axis in axes):
        p0, f0, psteps, fsteps = view.p0, view.f0, [0] * rank, [0] * rank
        for axis, pstep, fstep in zip(axes, view.psteps, view.fsteps, strict=True):
            p0 += axis.grid.offset * pstep
            f0 += axis.grid.offset * fstep
            for d, step in enumerate(axis.grid.steps):
                psteps[d] += step * pstep
                fsteps[d] += step * fstep
        found = View(view.buffer, shape, tuple(psteps), tuple(fsteps), p0, f0, None, view.mask)
        return _at_least_2d(found)
    partition: Any = np.full((1,) * rank, view.p0, np.int64)
    free: Any = np.full((1,) * rank, view.f0, np.int64)
    inside: Any = None
    leaving = []
    steps = zip(view.psteps, view.fsteps, strict=True)
    for number, (axis, size, (pstep, fstep)) in enumerate(
        zip(axes, view.shape, steps, strict=True)
    ):
        numbers = axis.grid.array
        if not axis.inside:
            fits = (numbers >= 0) & (numbers < size)
            inside = fits if inside is None else inside & fits
            leaving.append((number, size, numbers))
            numbers = np.clip(numbers, 0, size - 1)
        if pstep:
            partition = partition + numbers * pstep
        if fstep:
            free = free + numbers * fstep
    chosen = [(a.grid, s) for a, s in zip(axes, view.fsteps, strict=True) if a.grid.by is not None]
    by: Any = chosen[0][0].by if chosen else None
    stride = chosen[0][0].times * chosen[0][1] if len(chosen) == 1 else 0
    gather = Gather(partition, free, inside, leaving, by, stride)
    zeros = (0,) * rank
    return _at_least_2d(View(view.buffer, shape, zeros, zeros, 0, 0, gather, view.mask))


def _at_least_2d(view: View) -> View:
    """Tiles keep two axes; a region of HBM may have one."""
    if len(view.shape) >= 2 or not view.on_chip:
        return view
    if view.gather is not None:
        raise KernelError(
            "1d_arange_not_supported",
            "a tile is indexed with a grid of one axis, but needs grids of two axes",
        )
    shape, psteps, fsteps = (*view.shape, 1), (*view.psteps, 0), (*view.fsteps, 0)
    return View(view.buffer, shape, psteps, fsteps, view.p0, view.f0, None, view.mask)


def _indexed_again(view: View, items: tuple[object, ...]) -> View:
    """A region of a region that was indexed with grids, which allows only slices and numbers."""
    assert view.gather is not None
    if any(isinstance(item, Index) for item in items) or view.mask is not None:
        raise KernelError(
            "unsupported_indexing",
            "a tensor that was indexed with grids can only be sliced further",
        )
    key: Any = tuple(slice(i, i + 1) if isinstance(i, int) else i for i in items)
    gather = view.gather.mapped(lambda array: np.broadcast_to(array, view.shape)[key])
    zeros = (0,) * len(gather.free.shape)
    return View(view.buffer, gather.free.shape, zeros, zeros, 0, 0, gather)
