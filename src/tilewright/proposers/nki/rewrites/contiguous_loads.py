"""Loads the elements between strided elements too, because transfers of single elements are slow.

Before:                                   After:

    a = load(w[:, 4::9])                      run = load(w[:, 0 : 9 * 128])
    use(a)                                    use(run[:, 4::9])

The run begins at the first of all such loads, so that loads of other elements of it become the same
load.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import (
    Alloc,
    Kernel,
    Path,
    Region,
    Tensor,
    mapped_ops,
    mapped_regions,
    spliced,
)
from tilewright.proposers.nki.linear import Linear
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.expansion import carried, require_room
from tilewright.proposers.nki.rewrites.renaming import with_own_tile
from tilewright.proposers.nki.rewrites.uses import is_whole, op_at, uses

WIDEST = 16
"""Maximum distance between elements for which loading all elements in between is faster."""


def runs(kernel: Kernel, path: Path) -> Kernel:
    """The kernel in which the load at `path` loads whole runs. Its readers select their
    elements."""
    load = op_at(kernel, path)
    source, target = load.get("src"), load.get("dst")
    if load.name != "dma_copy" or not isinstance(source, Region) or not isinstance(target, Region):
        raise NotApplicableError("the instruction is not a load")
    tensors = kernel.tensors()
    tile, origin = tensors[target.tensor], tensors[source.tensor]
    if origin.on_chip or tile.memory != "sbuf" or tile.dtype != origin.dtype:
        raise NotApplicableError("the instruction is not a load, or it converts the type")
    if len(tile.shape) != 2 or not is_whole(target, tile) or source.shape != tile.shape:
        raise NotApplicableError("the instruction does not load a row into a tile of its own")
    step = source.dims[1][0]
    if not 1 < step <= WIDEST or any(factor % step for _, factor in source.offset.terms):
        raise NotApplicableError("the instruction does not load elements at short, equal distances")
    rest = source.offset.constant % step
    wide = replace(tile, name=Names(kernel).fresh("run"), shape=(tile.shape[0], tile.row * step))
    whole = Region(source.tensor, source.offset - rest, (source.dims[0], (1, wide.row)))
    _, most = whole.offset.bounds(kernel.trips())
    if most + whole.extent > origin.shape[0] * origin.row:
        raise NotApplicableError("the contiguous runs would extend beyond the tensor")
    require_room(wide)
    kernel = with_own_tile(kernel, path, tile.name)
    found = uses(kernel, tile.name)
    if found.written != (path,) or found.home[:-1] != path[:-1]:
        raise NotApplicableError(f"{tile.name} is used elsewhere")
    into = Region(wide.name, Linear(), ((wide.row, wide.shape[0]), (1, wide.row)))
    body = spliced(kernel.body, path, (Alloc(wide), load.having(dst=into, src=whole)))
    take = partial(_taken, tile=tile, wide=wide, step=step, rest=rest)
    return replace(kernel, body=mapped_ops(body, lambda op: mapped_regions(op, take)))


def _taken(region: Region, tile: Tensor, wide: Tensor, step: int, rest: int) -> Region:
    """A region of the tile as elements of the run."""
    if region.tensor != tile.name:
        return region
    return carried(region, tile, wide.name, wide.row, Linear(rest), step)
