"""Replaces a loop over one instruction by a single wider instruction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.proposers.nki.ir import ITEM_BYTES, Loop, Op, Region, Setting, Statement, Tensor
from tilewright.proposers.nki.linear import Linear

MOST_PRODUCT_COLUMNS = 512
BANK_BYTES = 2048
MOST_COLUMNS = 8192
"""Maximum number of elements per partition of an instruction that replaces a loop."""
_BY_ELEMENT = (
    "dma_copy", "tensor_copy", "memset", "tensor_tensor", "tensor_scalar", "activation",
    "scalar_tensor_tensor", "reciprocal", "tensor_reduce", "nc_matmul", "affine_select",
    "tensor_copy_predicated",
)  # fmt: skip
_COLUMNS = ("operand0", "operand1", "bias", "scale")
"""Operands with one element for each partition, or a number."""


def widened(op: Op, loop: Loop, tensors: Mapping[str, Tensor]) -> Op | None:
    """The instruction over all iterations of a loop; None if there is none.

    The iterations must be independent.
    """
    if op.name not in _BY_ELEMENT or op.get("reduce_res") is not None:
        return None
    arguments: list[tuple[str, Region | Setting]] = []
    added: list[tuple[str, Region]] = []
    for key, value in op.arguments:
        if isinstance(value, Region):
            if _is_column(op, key):
                if value.offset.factor(loop.variable):
                    return None
                arguments.append((key, value))
                continue
            if key == "stationary":
                if value.offset.factor(loop.variable):
                    return None
                arguments.append((key, value))
                continue
            region = _with_dim(value, loop)
            if region is None:
                return None
            added.append((key, region))
            arguments.append((key, region))
        else:
            arguments.append((key, value))
    if op.name == "affine_select":
        changed = _selection(dict(arguments), loop)
        if changed is None:
            return None
        arguments = list(changed.items())
    elif any(isinstance(v, Linear) and v.factor(loop.variable) for _, v in arguments):
        return None
    wider = Op(op.name, tuple(arguments))
    if op.name == "tensor_reduce":
        wider = wider.having(axis=_shifted(op.get("axis")))
    else:
        wider = _merged(wider, added)
    return wider if _is_legal(wider, op, tensors) else None


def _is_column(op: Op, key: str) -> bool:
    tile = op.name == "scalar_tensor_tensor" and key == "operand1"
    return key in _COLUMNS and not tile


def _with_dim(region: Region, loop: Loop) -> Region | None:
    """The region with the loop as its first free dimension."""
    step = region.offset.factor(loop.variable)
    if step < 0:
        return None
    first, *free = region.dims
    dims = (first, (step, loop.trips), *free)
    return Region(region.tensor, region.offset.without(loop.variable), dims)


def _merged(op: Op, added: list[tuple[str, Region]]) -> Op:
    """The new dimension and the next one merged, if all regions allow this."""
    regions = dict(added)
    while all(_joins(region) for region in regions.values()):
        regions = {
            key: Region(
                r.tensor, r.offset,
                (r.dims[0], (r.dims[2][0], r.dims[1][1] * r.dims[2][1]), *r.dims[3:]),
            )
            for key, r in regions.items()
        }  # fmt: skip
        op = op.having(**regions)
        if op.name == "affine_select":
            pattern: Any = op.get("pattern")
            (step, count), (inner, size), *rest = pattern
            if step != inner * size:
                return op.having(**dict(added))
            op = op.having(pattern=((inner, count * size), *rest))
    return op


def _joins(region: Region) -> bool:
    if len(region.dims) < 3:
        return False
    (step, count), (inner, size) = region.dims[1:3]
    return step == inner * size and count > 0


def _selection(
    arguments: dict[str, Region | Setting], loop: Loop
) -> dict[str, Region | Setting] | None:
    """`affine_select` with the loop as another dimension of its pattern."""
    pattern, offset = arguments.get("pattern"), arguments.get("offset", 0)
    if not isinstance(pattern, tuple):
        return None
    step = offset.factor(loop.variable) if isinstance(offset, Linear) else 0
    rest = offset.without(loop.variable) if isinstance(offset, Linear) else offset
    return {**arguments, "pattern": ((step, loop.trips), *pattern), "offset": rest}


def _shifted(axis: Region | Setting | None) -> Setting:
    """The reduced axes, which come after the new one."""
    if isinstance(axis, tuple):
        return tuple(a + 1 if isinstance(a, int) and a >= 0 else a for a in axis)
    assert isinstance(axis, int)
    return axis + 1 if axis >= 0 else axis


def _is_legal(op: Op, before: Op, tensors: Mapping[str, Tensor]) -> bool:
    if any(len(region.dims) > 5 for _, region in op.regions):
        return False
    for _, region in op.regions:  # an iteration may begin at another partition
        tensor = tensors[region.tensor]
        reach = 1 + sum(step * (count - 1) for step, count in region.dims[1:])
        if tensor.on_chip and reach > tensor.row:
            return False
    for region in op.writes:
        if any(step == 0 and count > 1 for step, count in region.dims):
            return False
    if op.name == "nc_matmul":
        return _fits_bank(op, tensors)
    if op.name == "dma_copy":
        return _run(op, tensors) > _run(before, tensors)
    return max(_elements(region) for _, region in op.regions) <= MOST_COLUMNS


def _elements(region: Region) -> int:
    """Number of different elements of one partition, or more if windows overlap."""
    return min(region.columns, 1 + sum(step * (count - 1) for step, count in region.dims[1:]))


def _fits_bank(op: Op, tensors: Mapping[str, Tensor]) -> bool:
    target = op.region("dst")
    return (
        op.region("moving").columns <= MOST_PRODUCT_COLUMNS
        and target.columns * ITEM_BYTES[tensors[target.tensor].dtype] <= BANK_BYTES
    )


def _run(op: Op, tensors: Mapping[str, Tensor]) -> int:
    """Number of bytes of the runs that are contiguous on both sides of a transfer."""
    return min(
        run_of(region) * ITEM_BYTES[tensors[region.tensor].dtype] for _, region in op.regions
    )


def run_of(region: Region) -> int:
    """Number of consecutive elements of one partition."""
    run = 1
    for step, count in reversed(region.dims[1:]):
        if count == 1:
            continue
        if step != run:
            break
        run *= count
    return run


def leaf(loop: Loop, tensors: Mapping[str, Tensor]) -> Statement:
    """A loop over one instruction as one wider instruction, if there is one."""
    if len(loop.body) == 1 and isinstance(loop.body[0], Op):
        found = widened(loop.body[0], loop, tensors)
        if found is not None:
            return found
    return loop
