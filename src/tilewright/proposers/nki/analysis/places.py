"""Describes regions by the axes of their tensor: where they begin and how long they are on each
axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.proposers.nki.ir import Region, Tensor
from tilewright.proposers.nki.linear import Linear


@dataclass(frozen=True, slots=True)
class Extent:
    """Indices of one axis: `count` indices from `start`, with distance `step`. `dim` is the
    region's dimension, if any."""

    start: Linear
    count: int
    step: int = 1
    dim: int | None = None

    @property
    def size(self) -> int:
        """From the first index to one past the last."""
        return self.step * (self.count - 1) + 1


def extents(region: Region, tensor: Tensor, trips: Mapping[str, int]) -> list[Extent] | None:
    """The indices on every axis; None if the region is not a box."""
    starts, rest = [], region.offset
    for stride in tensor.strides:
        quotient, rest = rest.divided(stride)
        starts.append(quotient)
    found: list[Extent] = []
    waiting = [(n, step, count) for n, (step, count) in enumerate(region.dims)]
    for axis, (stride, size) in enumerate(zip(tensor.strides, tensor.shape, strict=True)):
        start, chosen = starts[axis], None
        reach = stride * size
        if waiting:
            number, step, count = waiting[0]
            fits = step and step % stride == 0 and (step < reach or (count == 1 and step == reach))
            if fits and (step // stride) * (count - 1) < size:
                chosen = Extent(start, count, step // stride, number)
                waiting.pop(0)
        found.append(chosen or Extent(start, 1))
        low, high = start.bounds(trips)
        if low < 0 or high + found[-1].size > size:
            return None
    return None if waiting else found


def printed(region: Region, tensor: Tensor, trips: Mapping[str, int]) -> str:
    """The region as Python: with slices if possible, otherwise with its access pattern."""
    boxes = None if region.falls else extents(region, tensor, trips)  # no slice goes backwards
    if boxes is not None and all(box.step == 1 or box.count > 1 for box in boxes):
        whole = all(
            box.start == Linear() and box.count == size and box.dim is not None and box.step == 1
            for box, size in zip(boxes, tensor.shape, strict=True)
        )
        if whole:
            return region.tensor
        parts = [_index(box, size) for box, size in zip(boxes, tensor.shape, strict=True)]
        return f"{region.tensor}[{', '.join(parts)}]"
    pattern = ", ".join(f"[{step}, {count}]" for step, count in region.dims)
    offset = "" if region.offset == Linear() else f", offset={region.offset.text()}"
    return f"{region.tensor}.ap(pattern=[{pattern}]{offset})"


def _index(box: Extent, size: int) -> str:
    if box.dim is None:
        return box.start.text()
    if box.start == Linear() and box.count == size and box.step == 1:
        return f"0:{size}"
    stop = (box.start + box.size).text()
    every = "" if box.step == 1 else f":{box.step}"
    return f"{box.start.text()} : {stop}{every}"
