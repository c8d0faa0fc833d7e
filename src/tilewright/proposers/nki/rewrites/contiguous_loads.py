"""Moves whole runs instead of strided elements, because transfers of single elements are slow.

Before:                                   After:

    a = load(w[:, 4::9])                      run = load(w[:, 0 : 9 * 128])
    use(a)                                    use(run[:, 4::9])

The run begins at the first of all such loads, so that loads of other elements of it become the same
load. If the iterations of a loop store elements between those of the others, they are stored once:

    for i in range(2):                        run = tile()
        store(y[:, i::2], t)                  for i in range(2):
                                                  run[:, i::2] = t
                                              store(y, run)
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import (
    Alloc,
    Kernel,
    Loop,
    Op,
    Path,
    Region,
    Tensor,
    at,
    mapped_ops,
    mapped_regions,
    ops,
    spliced,
)
from tilewright.proposers.nki.ir import whole as whole_tile
from tilewright.proposers.nki.linear import Linear, variable
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


def weave(kernel: Kernel, path: Path) -> Kernel:
    """The kernel in which the store at `path` is executed once, after the loop around it, if the
    loop's iterations store elements that lie between those of the others."""
    store = op_at(kernel, path)
    source, target = store.get("src"), store.get("dst")
    if store.name != "dma_copy" or not isinstance(source, Region) or not isinstance(target, Region):
        raise NotApplicableError("the instruction is not a store")
    tensors = kernel.tensors()
    tile = tensors[source.tensor]
    if tensors[target.tensor].on_chip or tile.memory != "sbuf" or source.shape != target.shape:
        raise NotApplicableError("the instruction does not store a tile as it is")
    if len(path) < 2:
        raise NotApplicableError("no loop contains the store")
    loop = at(kernel.body, path[:-1])
    assert isinstance(loop, Loop)
    if sum(r.tensor == target.tensor for op in ops(loop.body) for _, r in op.regions) > 1:
        raise NotApplicableError(f"the loop accesses {target.tensor} elsewhere")
    _, most = source.offset.bounds(kernel.trips())
    if most + Region("", Linear(), source.dims[1:]).extent > tile.row:
        raise NotApplicableError("the stored region does not begin at the first partition")
    whole, axis = _filled(target, loop)
    wide = Tensor(Names(kernel).fresh("run"), whole.shape, tile.dtype, "sbuf")
    require_room(wide)
    step = wide.strides[axis]
    dims = list(zip(wide.strides, target.shape, strict=True))
    dims[axis] = (step * loop.trips, target.shape[axis])
    part = Region(wide.name, variable(loop.variable) * step, tuple(dims))
    copy = Op("tensor_copy", (("dst", part), ("src", source)))
    filled = replace(loop, body=spliced(loop.body, path[-1:], (copy,)))
    stored = store.having(dst=whole, src=whole_tile(wide))
    return replace(kernel, body=spliced(kernel.body, path[:-1], (Alloc(wide), filled, stored)))


def _filled(target: Region, loop: Loop) -> tuple[Region, int]:
    """What all iterations of a loop store to, no element twice, and the axis along which their
    elements alternate."""
    factor, count = target.offset.factor(loop.variable), loop.trips
    dims = list(target.dims)
    place = next((n for n, d in enumerate(dims) if n and d[0] == factor * count and d[1] > 1), None)
    if count < 2 or factor < 1 or place is None:
        raise NotApplicableError("the iterations do not store interleaved elements")
    dims[place] = (factor, count * dims[place][1])
    reach = 0
    for step, size in sorted(dims):
        if size > 1 and step <= reach:
            raise NotApplicableError("some elements would be stored twice")
        reach += step * (size - 1)
    return Region(target.tensor, target.offset.without(loop.variable), tuple(dims)), place
