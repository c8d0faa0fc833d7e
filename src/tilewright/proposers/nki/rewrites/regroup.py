"""Orders the columns of a tile as a transfer in a loop needs them in HBM.

Before:                                       After:

    r = tile of 4 x 4 blocks of 128 columns       r = the same, block (j, k) at (k, j)
    copy(r, psum)                                 copy(r seen as (j, k), psum)
    for k, for j:                                 for k:
        store(out[k * 128, j * 128 : 128],            store(out[k * 128, 0 : 512],
              r[j * 512 + k * 128 : 128])                   r[k * 512 : 512])

A transfer takes time for each contiguous run. Other instructions read any order of blocks equally
fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.analysis.widening import run_of, widened
from tilewright.proposers.nki.estimate.cost import estimate
from tilewright.proposers.nki.ir import (
    Kernel,
    Loop,
    Op,
    Path,
    Region,
    Tensor,
    at,
    mapped_ops,
    spliced,
    with_tensor,
)
from tilewright.proposers.nki.linear import Linear, variable
from tilewright.proposers.nki.rewrites.uses import transfer_in_loop

_BY_ELEMENT = (
    "dma_copy", "tensor_copy", "memset", "tensor_tensor", "tensor_scalar", "activation",
    "reciprocal",
)  # fmt: skip
"""Instructions whose operands may all have another, equal shape."""
_MOST_DIMS = 5


@dataclass(frozen=True, slots=True)
class _Order:
    """The columns of a tile as `outer` x `inner` blocks of `block` columns. The first two are
    exchanged."""

    tile: Tensor
    outer: int
    inner: int
    block: int

    @property
    def digits(self) -> tuple[tuple[int, int, int], ...]:
        """Old step, count and new step of groups of blocks, of blocks, and inside a block."""
        return (
            (self.inner * self.block, self.outer, self.block),
            (self.block, self.inner, self.outer * self.block),
            (1, self.block, 1),
        )


def regroup(kernel: Kernel, path: Path) -> Kernel:
    """The kernel in which the tile of a transfer has the order in which its loop accesses HBM."""
    loop, near, far = transfer_in_loop(kernel, path)
    if near.tensor in {tensor.name for tensor in kernel.arguments}:
        raise NotApplicableError("the instruction is not a transfer between a tile and HBM")
    tile, block = kernel.tensors()[near.tensor], run_of(near)
    step = near.offset.factor(loop.variable)
    if block != near.columns or far.offset.factor(loop.variable) != block != step:
        raise NotApplicableError("successive iterations do not transfer contiguous blocks of HBM")
    if step % block or step * loop.trips != tile.row or run_of(far) != block:
        raise NotApplicableError(f"the loop does not transfer all of {tile.name}")
    order = _Order(tile, loop.trips, step // block, block)
    flat = replace(tile, shape=(tile.shape[0], tile.row))
    trips = kernel.trips()
    body = mapped_ops(with_tensor(kernel.body, flat), lambda one: _reordered(one, order, trips))
    found = replace(kernel, body=body)
    after = at(found.body, path[:-1])
    assert isinstance(after, Loop)
    moved = after.body[0]
    assert isinstance(moved, Op)
    wider = widened(moved, after, found.tensors())
    if wider is None:
        raise NotApplicableError("one transfer cannot replace all iterations of the loop")
    return replace(found, body=spliced(found.body, path[:-1], (wider,)))


def regrouped(kernel: Kernel) -> Kernel:
    """The kernel in which tiles have the order of their transfers if this makes all transfers
    faster.

    Iterations that run together place the blocks of their tiles in the order of the loops, which is
    the order of a load or of a store.
    """
    tried = 0
    while tried < len(places := _transfer_places(kernel)):
        try:
            made = regroup(kernel, places[tried])
        except NotApplicableError:
            made = kernel
        if made is not kernel and _transfers(made) < _transfers(kernel):
            kernel = made
        tried += 1
    return kernel


def _transfer_places(kernel: Kernel) -> list[Path]:
    """The places of all transfers."""
    return [
        path for path, op in kernel.statements() if isinstance(op, Op) and op.name == "dma_copy"
    ]


def _transfers(kernel: Kernel) -> float:
    return estimate(kernel).engines.get("dma", 0.0)


def _reordered(op: Op, order: _Order, trips: Mapping[str, int]) -> Op:
    """An instruction for the tile in its new order."""
    mine = [region for _, region in op.regions if region.tensor == order.tile.name]
    if not mine:
        return op
    splits = {split for region in mine for split in _splits(region, order)}
    if splits:
        shapes = {tuple(count for _, count in region.dims) for _, region in op.regions}
        if op.name not in _BY_ELEMENT or len(shapes) != 1:
            raise NotApplicableError(f"{op.name} depends on the order of the columns")
        op = Op(op.name, tuple((k, _split(v, splits) if isinstance(v, Region) else v)
                               for k, v in op.arguments))  # fmt: skip
    if any(len(region.dims) > _MOST_DIMS for _, region in op.regions):
        raise NotApplicableError("an access to the regrouped tile would have too many axes")
    return Op(op.name, tuple(
        (k, _moved(v, order, trips) if isinstance(v, Region) and v.tensor == order.tile.name else v)
        for k, v in op.arguments))  # fmt: skip


def _splits(region: Region, order: _Order) -> list[tuple[int, int]]:
    """Axes that extend over several blocks, each with the elements of its inner part."""
    found = []
    for axis, (step, count) in enumerate(region.dims):
        if not axis or count == 1:
            continue
        for size, number, _ in order.digits:
            unit = size * number
            if step < unit < step * count and unit % step == 0 and count % (unit // step) == 0:
                found.append((axis, unit // step))
    return found


def _split(region: Region, splits: set[tuple[int, int]]) -> Region:
    """A region with split axes: an axis of 12 elements that is split after 4 becomes 3 and 4."""
    dims: list[tuple[int, int]] = []
    for axis, (step, count) in enumerate(region.dims):
        inner = sorted((size for number, size in splits if number == axis), reverse=True)
        for size in inner:
            dims.append((step * size, count // size))
            count = size
        dims.append((step, count))
    return replace(region, dims=tuple(dims))


def _moved(region: Region, order: _Order, trips: Mapping[str, int]) -> Region:
    """The same elements at their new positions. Each axis and each variable stays within one
    digit."""
    row = order.tile.row
    if not region.dims or region.dims[0][0] != row:
        raise NotApplicableError(f"the partitions of {order.tile.name} are not accessed one by one")
    partition, free = region.offset.divided(row)
    place, reach, rest = Linear(), [0, 0, 0], free.constant
    for digit, (size, _, new) in enumerate(order.digits):
        reach[digit], rest = divmod(rest, size)
        place = place + reach[digit] * new
    for name, factor in free.terms:
        digit, step = _in_new_order(factor, order)
        reach[digit] += factor // order.digits[digit][0] * (trips[name] - 1)
        place = place + variable(name) * step
    dims = [region.dims[0]]
    for old, count in region.dims[1:]:
        digit, step = _in_new_order(old, order)
        reach[digit] += old // order.digits[digit][0] * (count - 1)
        dims.append((step, count))
    if any(far >= count for far, (_, count, _) in zip(reach, order.digits, strict=True)):
        raise NotApplicableError(
            "an instruction accesses a region that extends from one block into the next"
        )
    return Region(region.tensor, partition * row + place, tuple(dims))


def _in_new_order(step: int, order: _Order) -> tuple[int, int]:
    """The digit to which a step belongs, and the step in the new order."""
    for digit, (size, _, new) in enumerate(order.digits):
        if step >= 0 and step % size == 0:
            return digit, step // size * new
    raise NotApplicableError("an instruction accesses columns in descending order")
