"""Reduces the common part of two neighbouring windows once.

Before:                                   After:

    out[i] = max(x[i : i + 3])                both[j] = max(x[2 * j + 1 : 2 * j + 3])
                                              out[2 * j] = max(x[2 * j], both[j])
                                              out[2 * j + 1] = max(both[j], x[2 * j + 3])

The common part is in PSUM, because an operation on two tiles takes half the time if one operand is
there.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import Alloc, Kernel, Op, Path, Region, Tensor, spliced, whole
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.memory import require_psum
from tilewright.proposers.nki.rewrites.uses import op_at


def pairs(kernel: Kernel, path: Path) -> Kernel:
    """The kernel in which the reduction of overlapping windows at `path` processes pairs of
    windows."""
    reduce, tensors = op_at(kernel, path), kernel.tensors()
    if reduce.name != "tensor_reduce" or reduce.get("negate") or reduce.get("keepdims"):
        raise NotApplicableError("the instruction is not a reduction of the supported form")
    how = reduce.get("op")
    if how not in ("nl.add", "nl.maximum", "nl.minimum"):
        raise NotApplicableError("the result of the reduction depends on the order of its elements")
    data, target = reduce.region("data"), reduce.region("dst")
    if target.shape != data.shape[:-1] or data.tensor == target.tensor:
        raise NotApplicableError("the instruction does not reduce one axis of windows")
    types = {tensors[region.tensor].dtype for region in (data, target)}
    if types != {"float32"} or tensors[data.tensor].memory != "sbuf":
        raise NotApplicableError("the operand of the reduction is not float32 in SBUF")
    step, size = data.dims[-1]
    along = next((n for n, dim in enumerate(data.dims[1:-1], 1) if dim[0] == step), None)
    if along is None or size < 3 or data.dims[along][1] < 2 or data.dims[along][1] % 2:
        raise NotApplicableError("the windows do not overlap in pairs")

    def halved(region: Region, first: int) -> Region:
        """For every pair of windows, the part of one of them."""
        distance, count = region.dims[along]
        dims = (*region.dims[:along], (2 * distance, count // 2), *region.dims[along + 1 :])
        return Region(region.tensor, region.offset + first, dims)

    ends = replace(data, dims=data.dims[:-1])
    shape = halved(ends, 0).shape
    shared = Tensor(Names(kernel).fresh("shared"), shape, "float32", "psum")
    require_psum(shared)
    both = halved(data, step)
    both = replace(both, dims=(*both.dims[:-1], (step, size - 1)))
    total = whole(shared)
    next_one = target.dims[along][0]
    made = (
        Alloc(shared),
        reduce.having(dst=total, data=both),
        _joined(halved(target, 0), total, halved(ends, 0), how),
        _joined(halved(target, next_one), total, halved(ends, size * step), how),
    )
    return replace(kernel, body=spliced(kernel.body, path, made))


def _joined(into: Region, shared: Region, end: Region, how: str) -> Op:
    arguments = (("dst", into), ("data1", shared), ("data2", end), ("op", how))
    return Op("tensor_tensor", arguments)
