"""Loads overlapping windows once, as one longer row that each iteration reads a part of.

Before:                                   After:

    for k in range(5):                        row = load(x[..., 0 : 1028])
        a = load(x[..., k : k + 1024])        for k in range(5):
        use(a)                                    use(row[..., k : k + 1024])
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tilewright.proposers.nki.analysis import NotApplicableError, written
from tilewright.proposers.nki.cleaning import without_tensor
from tilewright.proposers.nki.expansion import carried, require_room
from tilewright.proposers.nki.ir import (
    Alloc,
    Kernel,
    Loop,
    Path,
    Region,
    Tensor,
    at,
    mapped_ops,
    mapped_regions,
    spliced,
    whole,
)
from tilewright.proposers.nki.linear import Linear, variable
from tilewright.proposers.nki.rewrites.renaming import with_own_tile
from tilewright.proposers.nki.rewrites.uses import is_whole, op_at, replaced_op, uses


def window(kernel: Kernel, path: Path) -> Kernel:
    """The kernel with the load at `path` before its loop, for all iterations."""
    load = op_at(kernel, path)
    source, target = load.get("src"), load.get("dst")
    loop = at(kernel.body, path[:-1]) if len(path) > 1 else None
    if load.name != "dma_copy" or not isinstance(loop, Loop):
        raise NotApplicableError("the instruction is not a load in a loop")
    assert isinstance(source, Region)
    assert isinstance(target, Region)
    tensors = kernel.tensors()
    tile = tensors[target.tensor]
    if tensors[source.tensor].on_chip or source.tensor in written(kernel.body):
        raise NotApplicableError("the loaded data may change")
    if tile.memory != "sbuf" or not is_whole(target, tile) or source.shape != tile.shape:
        raise NotApplicableError("the instruction does not load a whole tile of its own")
    (distance, length), *inner_dims = source.dims[1:]
    step, between = divmod(source.offset.factor(loop.variable), max(distance, 1))
    if between or not 0 < step < length:
        raise NotApplicableError("the windows of the iterations do not overlap")
    length += step * (loop.trips - 1)
    wide = replace(tile, shape=(tile.shape[0], length, *tile.shape[2:]))
    require_room(wide)
    kernel = with_own_tile(kernel, path, tile.name)
    found = uses(kernel, tile.name)
    if found.written != (path,) or found.home[:-1] != path[:-1]:
        raise NotApplicableError(f"{tile.name} is used elsewhere")
    made = op_at(kernel, path).having(
        dst=whole(wide),
        src=Region(
            source.tensor,
            source.offset.without(loop.variable),
            (source.dims[0], (distance, length), *inner_dims),
        ),
    )
    inner = at(replaced_op(kernel, path).body, path[:-1])
    assert isinstance(inner, Loop)
    place = variable(loop.variable) * (step * tile.strides[1])
    shifted = partial(_shifted, tile=tile, row=wide.row, place=place)
    body = mapped_ops(without_tensor(inner.body, tile.name), lambda op: mapped_regions(op, shifted))
    together = (Alloc(wide), made, replace(inner, body=body))
    return replace(kernel, body=spliced(kernel.body, path[:-1], together))


def _shifted(region: Region, tile: Tensor, row: int, place: Linear) -> Region:
    """A region of an iteration's tile in the longer row."""
    if region.tensor != tile.name:
        return region
    return carried(region, tile, tile.name, row, place)
