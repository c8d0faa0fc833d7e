"""Turns a tile on PE whose parts several transfers transpose element by element.

Before:                                       After:

    for r: for g:                                 for r: for g:
        a[16 r : 16, 14 g : 14] =                     rows[14 g : 14, 16 r : 16] =
            load(x[r, g], transposed)                     load(x[r, g])
                                                  turned = transpose(rows)    in PSUM
                                                  a = copy(turned)

Patches of images, of which each transfer loads one row, are an example.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

import numpy as np

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
    whole,
)
from tilewright.proposers.nki.linear import Linear
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.uses import body_of, op_at, uses, with_body

MOST = 128
"""Maximum numbers of rows and columns that PE transposes at once."""


def turn_parts(kernel: Kernel, tile: Tensor) -> Kernel:
    """The kernel in which all transfers to `tile` move rows, with one transpose on PE."""
    found = uses(kernel, tile.name)
    if len(tile.shape) != 2 or max(tile.shape) > MOST or tile.memory != "sbuf":
        raise NotApplicableError(f"PE cannot transpose {tile.name} at once")
    depth = len(found.home)
    home = found.home[:-1]
    last = max(path[depth - 1] for path in found.written)
    if any(path[:-1][: depth - 1] != home for path in (*found.written, *found.read)):
        raise NotApplicableError(f"{tile.name} is used outside the loop that creates it")
    if any(path[depth - 1] <= last for path in found.read):
        raise NotApplicableError(f"{tile.name} is read before all its parts are loaded")
    names = Names(kernel)
    rows = Tensor(names.fresh("rows"), tile.shape[::-1], tile.dtype, "sbuf")
    turned = Tensor(names.fresh("turned"), tile.shape, tile.dtype, "psum")
    _check_parts(kernel, tile, found.written, depth)

    def moved(op: Op) -> Op:
        if not any(region.tensor == tile.name for region in op.writes):
            return op
        return _by_rows(op, tile, rows)

    body = list(body_of(kernel, found.home))
    body[: last + 1] = mapped_ops(tuple(body[: last + 1]), moved)
    body[last + 1 : last + 1] = (
        Alloc(turned),
        Op("nc_transpose", (("dst", whole(turned)), ("data", whole(rows)))),
        Op("tensor_copy", (("dst", whole(tile)), ("src", whole(turned)))),
    )
    body.insert(found.home[-1], Alloc(rows))
    return with_body(kernel, home, tuple(body))


def _by_rows(op: Op, tile: Tensor, rows: Tensor) -> Op:
    """A transfer of a part of the tile as one of rows."""
    source, target = op.region("src"), op.region("dst")
    first, column = target.offset.divided(tile.row)
    (across, columns), (along, count) = source.dims
    place = Region(rows.name, column * rows.row + first, ((rows.row, count), (1, columns)))
    return op.having(dst=place, src=replace(source, dims=((along, count), (across, columns))))


def _check_parts(kernel: Kernel, tile: Tensor, written: tuple[Path, ...], depth: int) -> None:
    """All parts are matrices from HBM, and together they are the whole tile.

    A transpose on PE multiplies by zeros, so that an undefined element would spread along its row.
    """
    tensors = kernel.tensors()
    filled = np.zeros((tile.shape[0], tile.row), np.bool_)
    for path in written:
        op = op_at(kernel, path)
        if op.name != "dma_copy" or tensors[op.region("src").tensor].on_chip:
            raise NotApplicableError(f"not only transfers from HBM write {tile.name}")
        source, target = op.region("src"), op.region("dst")
        if source.tensor == tile.name or len(source.dims) != 2 or len(target.dims) != 2:
            raise NotApplicableError("a part of the tile is not a matrix")
        if target.dims[0][0] != tile.row or target.dims[1][0] != 1 or source.dims[0][0] != 1:
            raise NotApplicableError("a transfer does not transpose a part of the tile")
        trips = _trips(kernel, path, depth)
        if any(name not in trips for name, _ in target.offset.terms):
            raise NotApplicableError("a part of the tile depends on a loop outside it")
        low, high = target.offset.divided(tile.row)[1].bounds(trips)
        if low < 0 or high + target.columns > tile.row:
            raise NotApplicableError("a part of the tile goes beyond its columns")
        for offset in _offsets(target.offset, trips):
            first, column = divmod(offset, tile.row)
            filled[first : first + target.shape[0], column : column + target.columns] = True
            if filled.all():
                break
    if not filled.all():
        raise NotApplicableError(f"transfers leave parts of {tile.name} undefined")


def _trips(kernel: Kernel, path: Path, depth: int) -> dict[str, int]:
    """How often the loops around a place run that are inside the body at `depth`."""
    found = {}
    for end in range(depth, len(path)):
        loop = at(kernel.body, path[:end])
        assert isinstance(loop, Loop)
        found[loop.variable] = loop.trips
    return found


def _offsets(offset: Linear, trips: Mapping[str, int]) -> Iterator[int]:
    """The values of an offset in all iterations of loops."""
    for values in product(*(range(trips[name]) for name, _ in offset.terms)):
        yield offset.constant + sum(
            factor * value for (_, factor), value in zip(offset.terms, values, strict=True)
        )
