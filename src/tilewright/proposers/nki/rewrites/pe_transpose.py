"""Uses PE for a transposition that a transfer would do element by element.

Before:                                   After:

    a = load(x, transposed)                   rows = load(x)
                                              turned = transpose(rows)    in PSUM
                                              a = copy(turned)

For a store, the data are transposed before it, so that its rows are contiguous in HBM.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.analysis.partition_starts import can_start
from tilewright.proposers.nki.ir import (
    Alloc,
    Body,
    Kernel,
    Memory,
    Op,
    Path,
    Region,
    Tensor,
    spliced,
    whole,
)
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
    if any(len(region.dims) != 2 or max(region.shape) > MOST for region in (source, target)):
        raise NotApplicableError("the instruction does not transfer a matrix that PE can transpose")
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
