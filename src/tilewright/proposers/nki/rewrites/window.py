"""Loads overlapping windows once, as one longer row of which each iteration reads a part.

Before:                                   After:

    for k in range(5):                        row = load(x[..., 0 : 1028])
        a = load(x[..., k : k + 1024])        for k in range(5):
        use(a)                                    use(row[..., k : k + 1024])
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tilewright.proposers.nki.analysis.dependence import NotApplicableError, written
from tilewright.proposers.nki.ir import (
    Alloc,
    Kernel,
    Loop,
    Op,
    Path,
    Region,
    Statement,
    Tensor,
    at,
    mapped_ops,
    mapped_regions,
    spliced,
    whole,
)
from tilewright.proposers.nki.linear import Linear, variable
from tilewright.proposers.nki.rewrites.cleaning import without_tensor
from tilewright.proposers.nki.rewrites.expansion import carried, require_room
from tilewright.proposers.nki.rewrites.renaming import with_own_tile
from tilewright.proposers.nki.rewrites.uses import is_whole, op_at, replaced_op, uses


def window(kernel: Kernel, path: Path) -> Kernel:
    """The kernel in which the load at `path` is before its loop, for all iterations."""
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
    if tile.memory != "sbuf" or not _has_all_rows(target, tile) or source.shape != target.shape:
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
    *before, last = found.written
    if last != path or found.home[:-1] != path[:-1] or any(place < path for place in found.read):
        raise NotApplicableError(f"{tile.name} is used elsewhere")
    filled = tuple(_filling(kernel, place, path, tile).having(dst=whole(wide)) for place in before)
    if len(filled) != (not is_whole(target, tile)):
        raise NotApplicableError(f"the border of {tile.name} is not filled once")
    (_, partitions), _, *inner = target.dims
    made = op_at(kernel, path).having(
        dst=Region(
            tile.name,
            target.offset,
            ((wide.row, partitions), (tile.strides[1], length), *inner),
        ),
        src=Region(
            source.tensor,
            source.offset.without(loop.variable),
            (source.dims[0], (distance, length), *inner_dims),
        ),
    )
    without = replaced_op(kernel, path)
    for fill in before:
        without = replaced_op(without, fill)
    inner_loop = at(without.body, path[:-1])
    assert isinstance(inner_loop, Loop)
    place = variable(loop.variable) * (step * tile.strides[1])
    shifted = partial(_shifted, tile=tile, row=wide.row, place=place)
    body = mapped_ops(
        without_tensor(inner_loop.body, tile.name), lambda op: mapped_regions(op, shifted)
    )
    together: tuple[Statement, ...] = (Alloc(wide), *filled, made, replace(inner_loop, body=body))
    return replace(kernel, body=spliced(kernel.body, path[:-1], together))


def _has_all_rows(target: Region, tile: Tensor) -> bool:
    """Whether a region has some columns of a tile at all indices of its first column axis."""
    if is_whole(target, tile):
        return True
    if len(tile.shape) < 3 or len(target.dims) != len(tile.shape) or target.offset.terms:
        return False
    row = Region(tile.name, target.offset, target.dims[2:])
    return (
        target.dims[:2] == whole(tile).dims[:2]
        and target.offset.constant + row.extent <= tile.strides[1]
    )


def _filling(kernel: Kernel, place: Path, load: Path, tile: Tensor) -> Op:
    """The instruction that fills the tile with one number before the load of each iteration."""
    op = op_at(kernel, place)
    target = op.get("dst")
    assert isinstance(target, Region)
    if op.name != "memset" or place[:-1] != load[:-1] or not is_whole(target, tile):
        raise NotApplicableError(f"{tile.name} is used elsewhere")
    return op


def _shifted(region: Region, tile: Tensor, row: int, place: Linear) -> Region:
    """A region of an iteration's tile as a region of the longer row."""
    if region.tensor != tile.name:
        return region
    return carried(region, tile, tile.name, row, place)
