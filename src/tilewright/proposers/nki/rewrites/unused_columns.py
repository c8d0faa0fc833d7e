"""Computes only those columns of a tile that are read."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.analysis.hidden_columns import cut
from tilewright.proposers.nki.ir import Alloc, Kernel, Region, Tensor, spliced
from tilewright.proposers.nki.rewrites.uses import is_whole, op_at, uses

_OPERANDS = {"tensor_copy": "src", "nc_matmul": "moving"}
"""Instructions that compute each column of their result from the same column of an operand."""


def only_needed_columns(kernel: Kernel) -> Kernel:
    """The kernel with narrower copies and products if a part of their results is never read."""
    tiles = [s.tensor for _, s in kernel.statements() if isinstance(s, Alloc) and s.tensor.on_chip]
    for tensor in reversed(tiles):
        try:
            kernel = _narrowed(kernel, tensor)
        except NotApplicableError:
            continue
    return kernel


def _narrowed(kernel: Kernel, tensor: Tensor) -> Kernel:
    found, trips = uses(kernel, tensor.name), kernel.trips()
    if len(found.written) != 1 or found.written[0][:-1] != found.home[:-1]:
        raise NotApplicableError(f"{tensor.name} is not computed by one instruction")
    place = found.written[0]
    op = op_at(kernel, place)
    operand = op.get(_OPERANDS.get(op.name, ""))
    if not isinstance(operand, Region) or not is_whole(op.region("dst"), tensor):
        raise NotApplicableError(f"{tensor.name} is not computed column by column")
    low, high = tensor.row, 0
    for path in found.read:
        if path == place:
            continue
        for region in op_at(kernel, path).reads:
            if region.tensor == tensor.name:
                first, last = region.offset.bounds(trips)
                reach = sum(step * (count - 1) for step, count in region.dims[1:])
                low, high = min(low, first), max(high, last + reach + 1)
    counts = [[n for _, n in r.dims[1:] if n > 1] for r in (op.region("dst"), operand)]
    if not 0 <= low < high <= tensor.row or high - low == tensor.row:
        raise NotApplicableError(f"all columns of {tensor.name} are read")
    if counts != [[tensor.row]] * 2:
        raise NotApplicableError(f"the columns of {tensor.name} are spread over several axes")
    made = op.having(
        **{key: cut(op.region(key), (low, high)) for key in ("dst", _OPERANDS[op.name])}
    )
    return replace(kernel, body=spliced(kernel.body, place, (made,)))
