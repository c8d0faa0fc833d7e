"""Uses PE for a transposition that a transfer would do element by element.

Before:                                   After:

    a = load(x, transposed)                   rows = load(x)
                                              turned = transpose(rows)    in PSUM
                                              a = copy(turned)

For a store, the data are transposed before it, so that its rows are contiguous in HBM. A matrix
with more than 128 columns in SBUF is transposed in blocks of 128 columns.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.analysis.partition_starts import can_start
from tilewright.proposers.nki.ir import (
    Alloc,
    Body,
    Kernel,
    Loop,
    Memory,
    Op,
    Path,
    Region,
    Tensor,
    spliced,
    whole,
)
from tilewright.proposers.nki.linear import Linear, variable
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.pe_transpose_parts import MOST, turn_parts
from tilewright.proposers.nki.rewrites.uses import op_at


def turn(kernel: Kernel, path: Path) -> Kernel:
    """The kernel in which the transfer at `path` moves rows, with a transpose on PE."""
    op = op_at(kernel, path)
    if op.name not in ("dma_copy", "dma_transpose"):
        raise NotApplicableError("the instruction is not a transfer")
    source, target = op.region("src"), op.region("dst")
    tensors = kernel.tensors()
    origin, tile = tensors[source.tensor], tensors[target.tensor]
    if any(len(region.dims) != 2 for region in (source, target)):
        raise NotApplicableError("the instruction does not transfer a matrix that PE can transpose")
    if target.shape[1] > MOST:
        return _in_blocks(kernel, path, op)
    names = Names(kernel)

    def tensor(name: str, shape: tuple[int, ...], dtype: str, memory: Memory) -> Tensor:
        return Tensor(names.fresh(name), shape, dtype, memory)

    if not can_start(target, tensors):
        return turn_parts(kernel, tile)
    if tile.memory == "sbuf" and not origin.on_chip:
        rows = _rows(source, op.name == "dma_transpose")
        loaded = tensor("rows", rows.shape, tile.dtype, "sbuf")
        turned = tensor("turned", rows.shape[::-1], tile.dtype, "psum")
        first = Op("dma_copy", (("dst", whole(loaded)), ("src", rows)))
        last = Op("tensor_copy", (("dst", target), ("src", whole(turned))))
        made: Body = (Alloc(loaded), first, Alloc(turned), _transpose(turned, whole(loaded)), last)
    elif origin.memory == "sbuf" and not tile.on_chip and op.name == "dma_copy":
        rows = _rows(target, False)
        turned = tensor("turned", rows.shape, origin.dtype, "psum")
        stored = tensor("rows", rows.shape, tile.dtype, "sbuf")
        first = Op("tensor_copy", (("dst", whole(stored)), ("src", whole(turned))))
        last = Op("dma_copy", (("dst", rows), ("src", whole(stored))))
        made = (Alloc(turned), _transpose(turned, source), Alloc(stored), first, last)
    else:
        raise NotApplicableError("the instruction is not a transfer between HBM and SBUF")
    return replace(kernel, body=spliced(kernel.body, path, made))


def _in_blocks(kernel: Kernel, path: Path, op: Op) -> Kernel:
    """The kernel in which the transfer at `path` moves rows, in blocks that PE transposes."""
    count, rest = divmod(op.region("dst").shape[1], MOST)
    name = Names(kernel).fresh("block")
    is_loop = count > 1
    made: Body = (
        Loop(name, count, "affine_range", (_block(op, variable(name) * MOST, MOST),))
        if is_loop
        else _block(op, Linear(), MOST),
    )
    if rest:
        made = (*made, _block(op, Linear(MOST * count), rest))
    divided = replace(kernel, body=spliced(kernel.body, path, made))
    if rest:
        divided = turn(divided, (*path[:-1], path[-1] + 1))
    return turn(divided, (*path, 0) if is_loop else path)


def _block(op: Op, begin: Linear, size: int) -> Op:
    """The transfer of `size` columns of the destination from `begin` on."""

    def part(region: Region, axis: int) -> Region:
        step = region.dims[axis][0]
        dims = tuple((s, size if n == axis else c) for n, (s, c) in enumerate(region.dims))
        return Region(region.tensor, region.offset + begin * step, dims)

    axis = 0 if op.name == "dma_transpose" else 1
    return op.having(dst=part(op.region("dst"), 1), src=part(op.region("src"), axis))


def _rows(region: Region, is_given_by_rows: bool) -> Region:
    """The transferred data as rows of HBM."""
    (across, columns), (along, rows) = region.dims
    if is_given_by_rows:
        return region
    if across != 1 or along <= 1 or min(rows, columns) < 2:
        raise NotApplicableError("the instruction does not transpose")
    return replace(region, dims=((along, rows), (1, columns)))


def _transpose(turned: Tensor, data: Region) -> Op:
    return Op("nc_transpose", (("dst", whole(turned)), ("data", data)))
