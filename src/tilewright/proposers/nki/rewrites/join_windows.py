"""Loads windows that overlap or are adjacent only once, in a body, as `window` does in a loop.

Before:                                   After:

    a = load(x[:, s : s + 2048])              row = load(x[:, s : s + 2050])
    b = load(x[:, s + 2 : s + 2050])          use(row[:, 0:2048], row[:, 2:2050])
    use(a, b)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from tilewright.proposers.nki.analysis.dependence import NotApplicableError, written
from tilewright.proposers.nki.ir import (
    Alloc,
    Kernel,
    Op,
    Path,
    Region,
    Tensor,
    mapped_ops,
    mapped_regions,
    spliced,
    whole,
)
from tilewright.proposers.nki.linear import Linear
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.expansion import carried, require_room
from tilewright.proposers.nki.rewrites.renaming import with_own_tile
from tilewright.proposers.nki.rewrites.uses import body_of, is_whole, op_at, replaced_op, uses


def join(kernel: Kernel, path: Path) -> Kernel:
    """The kernel in which the load at `path` and the loads that it overlaps are one load."""
    load = op_at(kernel, path)
    if load.name == "dma_copy" and kernel.tensors()[load.region("dst").tensor].on_chip:
        kernel = with_own_tile(kernel, path, load.region("dst").tensor)
    source, tile = _loaded(kernel, path, load)
    (distance, length), *inner = source.dims[1:]
    begin: dict[Path, int] = {path: 0}
    """Offset of each load along the first axis after the partitions, in elements."""
    for place, other in _loads_beside(kernel, path):
        region, like = _loaded(kernel, place, other)
        apart = region.offset - source.offset
        number, rest = divmod(apart.constant, max(distance, 1))
        same = region.tensor == source.tensor and region.dims == source.dims
        if same and not apart.terms and not rest and replace(like, name=tile.name) == tile:
            begin[place] = number
    begin = _reached(begin, path, length)
    if len(begin) < 2:
        raise NotApplicableError("no other load of this iteration overlaps with this load")
    first, last = min(begin.values()), max(begin.values())
    shape = (tile.shape[0], length + last - first, *tile.shape[2:])
    wide = replace(tile, name=Names(kernel).fresh("row"), shape=shape)
    require_room(wide)
    made = load.having(dst=whole(wide), src=Region(
        source.tensor, source.offset + first * distance,
        (source.dims[0], (distance, shape[1]), *inner),
    ))  # fmt: skip
    places: dict[str, Linear] = {}
    for place, number in begin.items():
        name = op_at(kernel, place).region("dst").tensor
        places[name] = Linear((number - first) * tile.strides[1])
    for place in sorted(begin, reverse=True):
        kernel = (
            replaced_op(kernel, place)
            if place != min(begin)
            else replace(kernel, body=spliced(kernel.body, place, (Alloc(wide), made)))
        )
    take = partial(_taken, tile=tile, wide=wide, places=places)
    return replace(kernel, body=mapped_ops(kernel.body, lambda op: mapped_regions(op, take)))


def _loaded(kernel: Kernel, path: Path, load: Op) -> tuple[Region, Tensor]:
    """The source of a load that fills a whole separate tile, and the tile."""
    source, target, tensors = load.get("src"), load.get("dst"), kernel.tensors()
    if load.name != "dma_copy" or not isinstance(source, Region) or not isinstance(target, Region):
        raise NotApplicableError("the instruction is not a load")
    tile = tensors[target.tensor]
    if tensors[source.tensor].on_chip or source.tensor in written(kernel.body):
        raise NotApplicableError("the instruction is not a load, or the loaded data may change")
    if tile.memory != "sbuf" or not is_whole(target, tile) or source.shape != tile.shape:
        raise NotApplicableError("the instruction does not load a whole tile")
    found = uses(kernel, tile.name)
    if found.written != (path,) or found.home[:-1] != path[:-1]:
        raise NotApplicableError(f"{tile.name} is used elsewhere")
    return source, tile


def _loads_beside(kernel: Kernel, path: Path) -> Iterator[tuple[Path, Op]]:
    """The other loads of a body that could be joined with one load in it."""
    for number, statement in enumerate(body_of(kernel, path)):
        place = (*path[:-1], number)
        if isinstance(statement, Op) and place != path:
            try:
                _loaded(kernel, place, statement)
            except NotApplicableError:
                continue
            yield place, statement


def _reached(begin: Mapping[Path, int], path: Path, length: int) -> dict[Path, int]:
    """The loads without a gap to the one at `path`, or to others that have none."""
    found = {path: begin[path]}
    while True:
        low, high = min(found.values()), max(found.values())
        more = {p: n for p, n in begin.items() if low - length <= n <= high + length}
        if len(more) == len(found):
            return found
        found = more


def _taken(region: Region, tile: Tensor, wide: Tensor, places: Mapping[str, Linear]) -> Region:
    """A region of one of the tiles as a region of the longer one."""
    if region.tensor not in places:
        return region
    return carried(region, tile, wide.name, wide.row, places[region.tensor])
