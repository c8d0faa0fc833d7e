"""Gives each partition of a tile adjacent rows of HBM instead of every 128th row.

Before:                                       After:

    for r in range(4):                            load(t[p], rows p * 4 to p * 4 + 3 of x)
        load(t[p, block r], row r * 128 + p)
    for r in range(4):                            for r in range(4):
        transpose(d[r * 128 : 128], t[block r])       transpose(d[r : 512 : 4], t[block r])

The four rows of a partition are one contiguous run, so that the transfer has a quarter of the
descriptors. A transpose or a product moves every row to the column where it was before, or takes it
from there. Results for single elements hold the rows in the same order as the tile, and are stored
to the same rows as before. A product that sums over all rows of all blocks needs both operands in
the same order of rows, so the other operand takes it as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.analysis.widening import run_of, widened
from tilewright.proposers.nki.ir import (
    Body,
    Kernel,
    Loop,
    Op,
    Path,
    Region,
    Statement,
    Tensor,
    at,
)
from tilewright.proposers.nki.linear import Linear, variable
from tilewright.proposers.nki.rewrites.uses import transfer_in_loop

_COPIES = ("tensor_copy", "activation", "tensor_scalar", "tensor_tensor", "reciprocal")
_TURNING = {"nc_transpose": "data", "nc_matmul": "stationary"}
"""Instructions whose result has the columns of this operand as partitions."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Partition p of block q of some tiles is to hold row p * `count` + q of a block of `count`
    times `partitions` rows, instead of row q * `partitions` + p.

    `tiles` gives the columns of a block for each tile.
    """

    tiles: dict[str, int]
    count: int
    partitions: int
    trips: Mapping[str, int]

    def block(self, region: Region, row: int, alone: frozenset[str]) -> Linear:
        """The number of the block that a region of one of the tiles lies in.

        It must be the variable of a loop over all blocks that does nothing else: the rows of one
        block are other rows afterwards, those of all blocks are the same.
        """
        if not region.dims or region.dims[0] != (row, self.partitions):
            raise NotApplicableError("not all partitions of the tile are accessed together")
        unit = self.tiles[region.tensor]
        number, rest = region.offset.divided(unit)
        low, high = rest.bounds(self.trips)
        reach = 1 + sum(step * (count - 1) for step, count in region.dims[1:])
        if low < 0 or high + reach > unit:
            raise NotApplicableError("an instruction accesses several blocks of the tile")
        if not any(number == variable(v) and self.trips[v] == self.count for v in alone):
            raise NotApplicableError(
                "an instruction accesses some, but not all, blocks of the tile",
            )
        return number

    def spread(self, region: Region, row: int, block: Linear) -> Region:
        """The columns of another tile that rows of a block are moved to, or taken from."""
        if len(region.dims) != 2 or region.dims[1][1] != self.partitions:
            raise NotApplicableError("the rows of a block are not columns of another tile")
        step = region.dims[1][0]
        rest = region.offset - block * (step * self.partitions)
        low, high = rest.divided(row)[1].bounds(self.trips)
        follow = not any(rest.factor(name) for name, _ in block.terms)
        if not follow or low < 0 or high + step * (self.partitions * self.count - 1) >= row:
            raise NotApplicableError("the rows of the blocks do not follow one another")
        dims = (region.dims[0], (step * self.count, self.partitions))
        return Region(region.tensor, rest + block * step, dims)

    def transferred(self, region: Region, tensors: Mapping[str, Tensor], block: Linear) -> Region:
        """The rows of HBM that a block of one of the tiles is loaded from, or stored to."""
        step = region.dims[0][0]
        rest = region.offset - block * (step * self.partitions)
        if tensors[region.tensor].on_chip or region.dims[0][1] != self.partitions:
            raise NotApplicableError("the rows of a block are not rows of HBM")
        if any(rest.factor(name) for name, _ in block.terms):
            raise NotApplicableError("the rows of the blocks do not follow one another")
        dims = ((step * self.count, self.partitions), *region.dims[1:])
        return Region(region.tensor, rest + block * step, dims)


def adjacent(kernel: Kernel, path: Path) -> Kernel:
    """The kernel with adjacent rows in each partition of the tile of a transfer in a loop."""
    loop, near, far = transfer_in_loop(kernel, path)
    tile, unit = kernel.tensors()[near.tensor], near.columns
    partitions, step = near.dims[0][1], far.dims[0][0]
    covers = near.offset == variable(loop.variable) * unit and unit * loop.trips == tile.row
    if partitions != tile.shape[0] or run_of(near) != unit or not covers:
        raise NotApplicableError(f"the loop does not transfer all of {tile.name}, block by block")
    follow = far.offset.factor(loop.variable) == step * partitions
    if far.dims[0][1] != partitions or run_of(far) != unit or step != unit or not follow:
        raise NotApplicableError("the blocks are not complete rows of HBM that follow one another")
    rows = _Rows({tile.name: unit}, loop.trips, partitions, kernel.trips())
    while True:  # until no further tile has its rows in the same order
        known = dict(rows.tiles)
        body = _changed(kernel.body, rows, kernel, frozenset())
        if rows.tiles == known:
            break
    body = _whole_transfers(body, rows, kernel)
    if isinstance(at(body, path[:-1]), Loop):
        raise NotApplicableError("one transfer cannot replace all iterations of the loop")
    return replace(kernel, body=body)


def _changed(body: Body, rows: _Rows, kernel: Kernel, alone: frozenset[str]) -> Body:
    """The statements with the rows in their new order; loops over `alone` run nothing else."""
    found: list[Statement] = []
    if len(body) > 1:
        alone = frozenset()
    for statement in body:
        if isinstance(statement, Loop):
            inner = _changed(statement.body, rows, kernel, alone | {statement.variable})
            found.append(replace(statement, body=inner))
        elif isinstance(statement, Op):
            found.append(_moved(statement, rows, kernel, alone))
        else:
            found.append(statement)
    return tuple(found)


def _whole_transfers(body: Body, rows: _Rows, kernel: Kernel) -> Body:
    """With one transfer instead of a loop of transfers of blocks, where one is enough."""
    found: list[Statement] = []
    for statement in body:
        if isinstance(statement, Loop):
            inner = _whole_transfers(statement.body, rows, kernel)
            statement = replace(statement, body=inner)
            transfers = [s for s in inner if isinstance(s, Op) and s.name == "dma_copy"]
            used = {region.tensor for op in transfers for _, region in op.regions}
            if len(inner) == len(transfers) == 1 and used & set(rows.tiles):
                statement = widened(transfers[0], statement, kernel.tensors()) or statement
        found.append(statement)
    return tuple(found)


def _moved(op: Op, rows: _Rows, kernel: Kernel, alone: frozenset[str]) -> Op:
    """An instruction that takes the rows of the tiles in their new order."""
    tensors = kernel.tensors()
    mine = [(key, region) for key, region in op.regions if region.tensor in rows.tiles]
    if not mine:
        return op
    key, region = mine[0]
    if len(mine) == 1 and op.name in (*_TURNING, "dma_copy"):
        block = rows.block(region, tensors[region.tensor].row, alone)
        if op.name == "dma_copy":
            other = "src" if key == "dst" else "dst"
            return op.having(**{other: rows.transferred(op.region(other), tensors, block)})
        other = _TURNING[op.name] if key == "dst" else "dst"
        if key == "dst" or (op.name == "nc_transpose" and key == "data"):
            far = op.region(other)
            return op.having(**{other: rows.spread(far, tensors[far.tensor].row, block)})
    if op.name == "nc_matmul":
        return _summed(op, rows, tensors, alone)
    if op.name not in _COPIES:
        raise NotApplicableError(f"{op.name} depends on which rows a partition holds")
    places = {(region.offset, region.dims) for _, region in op.regions}
    if len(places) != 1 or not all(tensors[r.tensor].on_chip for _, r in op.regions):
        raise NotApplicableError(f"{op.name} has operands that hold other rows")
    if any(tensors[r.tensor].row != tensors[region.tensor].row for _, r in op.regions):
        raise NotApplicableError(f"{op.name} has operands that hold other rows")
    row = tensors[region.tensor].row
    if region.offset != Linear() or run_of(region) != row or region.shape[0] != rows.partitions:
        rows.block(region, row, alone)
    rows.tiles.update({r.tensor: rows.tiles[region.tensor] for _, r in op.regions})
    return op


def _summed(op: Op, rows: _Rows, tensors: Mapping[str, Tensor], alone: frozenset[str]) -> Op:
    """A product that sums over the rows of all blocks: both operands take the new order."""
    operands = [op.region("stationary"), op.region("moving")]
    known = [region for region in operands if region.tensor in rows.tiles]
    blocks = {rows.block(region, tensors[region.tensor].row, alone) for region in known}
    result = op.region("dst")
    if len(blocks) != 1 or not op.accumulates or result.tensor in rows.tiles:
        raise NotApplicableError("a product does not sum the same blocks of its operands")
    (block,) = blocks
    if any(result.offset.factor(name) for name, _ in block.terms):
        raise NotApplicableError("a product sums the rows of some, but not all, blocks")
    for region in operands:
        tile, unit = tensors[region.tensor], region.columns
        place = (region.offset, region.dims[0], run_of(region), tile.row)
        if place != (block * unit, (tile.row, rows.partitions), unit, unit * rows.count):
            raise NotApplicableError(
                f"{tile.name} holds other rows than the blocks that are summed"
            )
        rows.tiles[tile.name] = unit
    return op
