"""Partitions at which engines can begin: any for transfers, few for all other instructions.

Places in a tile are numbers of elements, which rewrites divide into partition and column.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import Kernel, Region, Tensor, ops

TRANSFERS = ("dma_copy", "dma_transpose", "dma_add", "gather", "scatter")
"""Instructions of the DMA engines, each of whose descriptors addresses one partition."""


def startable(kernel: Kernel) -> Kernel:
    """The kernel itself; `NotApplicableError` if an engine would begin where it cannot, or if it is
    not known in which partition an instruction begins."""
    tensors = kernel.tensors()
    for op in ops(kernel.body):
        for _, region in op.regions:
            if op.name not in TRANSFERS and not can_start(region, tensors):
                raise NotApplicableError(f"{op.name} cannot begin at this partition")
            if not _stays_in_row(region, tensors[region.tensor], kernel):
                raise NotApplicableError(f"{region.tensor} is accessed across its rows")
    return kernel


def _stays_in_row(region: Region, tensor: Tensor, kernel: Kernel) -> bool:
    """Whether a place whose partition and column both depend on a loop has a column of its row.

    The division by the row finds the wrong partition if the column moves back while the partition
    moves forward.
    """
    row = tensor.row
    if not tensor.on_chip or all(f % row == 0 or abs(f) < row for _, f in region.offset.terms):
        return True
    low, high = region.offset.divided(row)[1].bounds(kernel.trips())
    return low >= 0 and high < row


def can_start(region: Region, tensors: Mapping[str, Tensor]) -> bool:
    """Whether an engine can access a region: up to 32 partitions from a multiple of 32, up to 64
    from a multiple of 64, more from 0."""
    tensor = tensors[region.tensor]
    if not tensor.on_chip or not region.dims:
        return True
    count = region.dims[0][1]
    if count in (1, tensor.shape[0]):
        return True
    first, _ = region.offset.divided(tensor.row)
    unit = 32 if count <= 32 else 64 if count <= 64 else 128
    return not any(value % unit for value in (first.constant, *(f for _, f in first.terms)))
