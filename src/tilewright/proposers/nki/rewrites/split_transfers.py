"""Splits a large transfer, so that other instructions need not wait until it is complete.

Before:                                   After:

    load(t, x[..., 0:120, :])                 for part in range(8):
                                                  load(t[:, 15 part : 15 part + 15, :],
                                                       x[..., 15 part : 15 part + 15, :])
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import Kernel, Loop, Op, Path, Region, Statement, spliced
from tilewright.proposers.nki.linear import Linear, variable
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.uses import op_at


def pieces(kernel: Kernel, path: Path, count: int) -> Kernel:
    """The kernel in which the transfer at `path` is split into `count` transfers, and another one
    for the rest."""
    op = op_at(kernel, path)
    if op.name != "dma_copy":
        raise NotApplicableError("the instruction is not a transfer")
    shape = op.region("dst").shape
    if op.region("src").shape != shape or len(shape) < 3:
        raise NotApplicableError("the transfer has no rows of columns")
    size, rest = divmod(shape[1], count)
    if size < 2:
        raise NotApplicableError("the pieces would be too small")
    name = Names(kernel).fresh("part")
    loop = Loop(name, count, "affine_range", (_piece(op, variable(name) * size, size),))
    made: tuple[Statement, ...] = (loop,)
    if rest:
        made = (loop, _piece(op, Linear(size * count), rest))
    return replace(kernel, body=spliced(kernel.body, path, made))


def _piece(op: Op, begin: Linear, size: int) -> Op:
    """The transfer of `size` rows from `begin` on."""

    def part(region: Region) -> Region:
        partitions, (step, _), *inner = region.dims
        dims = (partitions, (step, size), *inner)
        return Region(region.tensor, region.offset + begin * step, dims)

    return op.having(dst=part(op.region("dst")), src=part(op.region("src")))
