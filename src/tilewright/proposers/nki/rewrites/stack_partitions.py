"""Puts iterations that use a half or a quarter of the partitions next to one another on all
partitions.

Before:                                   After:

    for c in range(8):                        for c in range(4):
        a = load(x, c)   # 64 partitions          a[:64] = load(x, 2 * c)
        b = a * 2                                 a[64:] = load(x, 2 * c + 1)
        store(b, c)                               b = a * 2   # 128 partitions
                                                  store(b[:64], 2 * c)
                                                  store(b[64:], 2 * c + 1)

An instruction takes as long on 128 partitions as on 64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from tilewright.proposers.nki.analysis.dependence import KernelFacts, NotApplicableError, allocated
from tilewright.proposers.nki.ir import (
    Alloc,
    Body,
    Kernel,
    Loop,
    Op,
    Path,
    Region,
    Statement,
    Tensor,
    at,
    mapped_regions,
    spliced,
    substituted,
    variables,
    walk,
)
from tilewright.proposers.nki.linear import Linear, variable
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.strips import strip
from tilewright.proposers.nki.rewrites.unroll_and_jam import is_parallel
from tilewright.proposers.nki.rewrites.uses import BY_PARTITION, op_at

ALL = 128
BEGINNINGS = (32, 64)
"""Numbers of partitions of a tile after which another one may begin."""


def fold(kernel: Kernel, path: Path) -> Kernel:
    """The kernel in which strips of an instruction, and of the following ones, are on separate
    partitions."""
    rows = max(region.dims[0][1] for _, region in op_at(kernel, path).regions)
    columns = max(region.columns for _, region in op_at(kernel, path).regions)
    count = ALL // rows
    if rows not in BEGINNINGS or columns % count:
        raise NotApplicableError(f"tiles of {rows} partitions cannot be placed side by side")
    stripped = strip(kernel, path, columns // count)
    known = kernel.trips()
    (loop,) = (p for p, s in walk(stripped.body)
               if isinstance(s, Loop) and s.variable not in known)  # fmt: skip
    return stack(stripped, loop, count)


def stack(kernel: Kernel, path: Path, count: int) -> Kernel:
    """The kernel in which `count` iterations of a loop run at the same time on separate
    partitions."""
    loop = at(kernel.body, path)
    if not isinstance(loop, Loop) or count < 2 or loop.trips % count:
        raise NotApplicableError(
            f"the number of iterations of the loop is not a multiple of {count}"
        )
    if not is_parallel(loop, KernelFacts.of(kernel)):
        raise NotApplicableError("the iterations of the loop depend on one another")
    tiles = allocated(loop.body)
    rows = {tile.shape[0] for tile in tiles.values()}
    if len(rows) != 1 or not all(tile.on_chip for tile in tiles.values()):
        raise NotApplicableError("the tiles of the loop have different numbers of partitions")
    height = rows.pop()
    if height not in BEGINNINGS or height * count > ALL:
        raise NotApplicableError(
            f"{count} tiles of {height} partitions cannot be placed side by side"
        )
    outer = Names(kernel).fresh(loop.variable) if loop.trips > count else None
    made = _Stacked(loop, count, outer, tiles, kernel.tensors(), height)
    body = tuple(made.body(loop.body))
    if outer is not None:
        body = (replace(loop, variable=outer, trips=loop.trips // count, body=body),)
    return replace(kernel, body=spliced(kernel.body, path, body))


class _Stacked:
    def __init__(
        self, loop: Loop, count: int, outer: str | None,
        tiles: Mapping[str, Tensor], tensors: Mapping[str, Tensor], height: int,
    ) -> None:  # fmt: skip
        self._loop, self._count, self._outer = loop, count, outer
        self._tiles, self._tensors, self._height = tiles, tensors, height

    def body(self, body: Body) -> Iterator[Statement]:
        for statement in body:
            if isinstance(statement, Loop):
                yield replace(statement, body=tuple(self.body(statement.body)))
            elif isinstance(statement, Alloc):
                shape = (self._height * self._count, *statement.tensor.shape[1:])
                yield Alloc(replace(statement.tensor, shape=shape))
            else:
                yield from self._op(statement)

    def _op(self, op: Op) -> Iterator[Op]:
        if op.name not in BY_PARTITION:
            raise NotApplicableError(f"{op.name} does not work partition by partition")
        outside = [r for _, r in op.regions if not self._tensors[r.tensor].on_chip]
        if not outside:
            if self._loop.variable in variables(op):
                raise NotApplicableError("tiles are used elsewhere in each iteration")
            yield mapped_regions(op, self._higher)
            return
        if len(outside) != 1 or op.name != "dma_copy":
            raise NotApplicableError("a transfer is not one between HBM and a tile")
        for number in range(self._count):
            place = Linear(number)
            if self._outer is not None:
                place = place + variable(self._outer) * self._count
            moved = mapped_regions(op, partial(self._in_part_of_iteration, number=number))
            yield substituted(moved, {self._loop.variable: place})

    def _higher(self, region: Region) -> Region:
        """A region of a tile as a region of the tiles of all iterations."""
        tile = self._tensors[region.tensor]
        partition, _ = region.offset.divided(tile.row)
        if region.tensor not in self._tiles:
            raise NotApplicableError(f"{region.tensor} is not a tile of one iteration")
        if region.dims[0] != (tile.row, self._height) or partition != Linear():
            raise NotApplicableError(f"only some partitions of {region.tensor} are used")
        dims = ((tile.row, self._height * self._count), *region.dims[1:])
        return replace(region, dims=dims)

    def _in_part_of_iteration(self, region: Region, number: int) -> Region:
        """A region of a tile as a region in the part of one iteration."""
        tile = self._tensors[region.tensor]
        if not tile.on_chip:
            return region
        self._higher(region)
        return replace(region, offset=region.offset + number * tile.row * self._height)
