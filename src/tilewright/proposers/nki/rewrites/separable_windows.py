"""Reduces two-dimensional windows first along one axis, then along the other.

Before:                                   After:

    out = max(x, over 3 rows, 3 columns)      down = max(x, over 3 rows)
                                              out = max(down, over 3 columns)

The common part of neighbouring windows is reduced once: 3 + 3 instead of 9 elements for each
result.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import Alloc, Kernel, Op, Path, Region, Tensor, spliced
from tilewright.proposers.nki.linear import Linear
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.uses import op_at


def separate(kernel: Kernel, path: Path) -> Kernel:
    """The kernel in which the reduction of overlapping windows at `path` is split into two."""
    reduce = op_at(kernel, path)
    if reduce.name != "tensor_reduce" or reduce.get("negate") or reduce.get("keepdims"):
        raise NotApplicableError("the instruction is not a reduction of the supported form")
    if reduce.get("op") not in ("nl.add", "nl.maximum", "nl.minimum"):
        raise NotApplicableError("the result of the reduction depends on the order of its elements")
    data, target = reduce.region("data"), reduce.region("dst")
    if len(data.dims) != 4 or target.columns != data.dims[1][1]:
        raise NotApplicableError(
            "the instruction does not reduce two axes of windows along one axis"
        )
    partition, (step, count), *windows = data.dims
    along = next((n for n, (other, size) in enumerate(windows) if other == step and size > 1), None)
    if along is None or windows[1 - along][1] < 2:
        raise NotApplicableError("the windows do not overlap")
    size, across = windows[along][1], windows[1 - along]
    tensor = kernel.tensors()[data.tensor]
    wide = count + size - 1
    rows, name = partition[1], Names(kernel).fresh("reduced")
    between = Region(name, Linear(), ((wide, rows), (1, wide)))
    pairs = Region(name, Linear(), ((wide, rows), (1, count), (1, size)))
    made = (
        Alloc(Tensor(name, (rows, wide), tensor.dtype, "sbuf")),
        Op("tensor_reduce", (
            ("dst", between), ("op", reduce.get("op") or ""),
            ("data", replace(data, dims=(partition, (step, wide), across))), ("axis", 2),
        )),
        reduce.having(data=pairs, axis=2),
    )  # fmt: skip
    return replace(kernel, body=spliced(kernel.body, path, made))
