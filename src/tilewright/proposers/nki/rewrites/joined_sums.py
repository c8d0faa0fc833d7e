"""Accumulates a product in PSUM on the previous product, if both are added to the same sum.

Before:                                   After:

    memset(total, 0)
    p = psum; nc_matmul(p, a, b)              p = psum; nc_matmul(p, a, b)
    total = total + p
    q = psum; nc_matmul(q, c, d)              nc_matmul(p, c, d)
    total = total + q                         total = copy(p)
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError, touches
from tilewright.proposers.nki.ir import (
    Body,
    Kernel,
    Op,
    Path,
    Region,
    Tensor,
    mapped_ops,
    mapped_regions,
    whole,
)
from tilewright.proposers.nki.rewrites.cleaning import without_tensor
from tilewright.proposers.nki.rewrites.uses import (
    Uses,
    body_of,
    is_whole,
    op_at,
    same_elements,
    uses,
    with_body,
)


def summands(kernel: Kernel, path: Path) -> tuple[Tensor, Tensor]:
    """The sum in SBUF to which the instruction at `path` adds, and the product in PSUM."""
    add = op_at(kernel, path)
    tensors = kernel.tensors()
    if add.name != "tensor_tensor" or add.get("op") != "nl.add":
        raise NotApplicableError("the instruction is not an addition")
    total = add.region("dst")
    one, other = add.region("data1"), add.region("data2")
    product = other if same_elements(one, total) else one
    if product is one and not same_elements(other, total):
        raise NotApplicableError("the instruction does not add to a sum")
    sums, parts = tensors[total.tensor], tensors[product.tensor]
    if parts.memory != "psum" or sums.memory != "sbuf" or sums.dtype != "float32":
        raise NotApplicableError("the instruction does not add a product to a sum in SBUF")
    if not is_whole(total, sums) or not is_whole(product, parts):
        raise NotApplicableError("the instruction adds only parts of tiles")
    return sums, parts


def require_product(kernel: Kernel, part: Uses, path: Path) -> None:
    """Raises `NotApplicableError` for a tile that is not a product used by only one instruction."""
    writers = [op_at(kernel, p) for p in part.written]
    if any(op.name != "nc_matmul" or not op.accumulates for op in writers):
        raise NotApplicableError("the value that the instruction adds is not a product")
    if set(part.read) - {path} - set(part.written) or part.home[:-1] != path[:-1]:
        raise NotApplicableError("the product is used elsewhere")


def joined(kernel: Kernel, path: Path, sums: Tensor, parts: Tensor) -> Kernel:
    """The kernel without an addition to a sum that was written earlier in the same body."""
    require_product(kernel, uses(kernel, parts.name), path)
    body, place = body_of(kernel, path), path[-1]
    before = max((n for n in range(place) if touches(body[n], sums.name)), default=-1)
    earlier = body[before] if before >= 0 else None
    if not isinstance(earlier, Op) or not earlier.writes:
        raise NotApplicableError("nothing was added to the sum before")
    if earlier.writes[0].tensor != sums.name or not is_whole(earlier.writes[0], sums):
        raise NotApplicableError("the previous instruction writes only a part of the sum")
    if earlier.name == "memset" and earlier.get("value") in (0, 0.0):
        copy = Op("tensor_copy", (("dst", whole(sums)), ("src", whole(parts))))
        return _in_place(kernel, path, (*body[:before], *body[before + 1 : place], copy))
    first = (*path[:-1], before)
    if earlier.name == "tensor_copy":
        product = kernel.tensors()[earlier.region("src").tensor]
        if not is_whole(earlier.region("src"), product):
            raise NotApplicableError("the sum begins with a part of a product")
    else:
        product = summands(kernel, first)[1]
    if product.memory != "psum" or (product.shape, product.dtype) != (parts.shape, parts.dtype):
        raise NotApplicableError("the products have other shapes")
    one, other = uses(kernel, product.name), uses(kernel, parts.name)
    require_product(kernel, one, first)
    if any(writer < one.home for writer in other.written):
        raise NotApplicableError("the second product is computed before the first")

    def renamed(region: Region) -> Region:
        return replace(region, tensor=product.name) if region.tensor == parts.name else region

    between = mapped_ops(
        without_tensor((*body[:before], *body[before + 1 : place]), parts.name),
        lambda op: mapped_regions(op, renamed),
    )
    return _in_place(kernel, path, (*between, earlier))


def _in_place(kernel: Kernel, path: Path, until: Body) -> Kernel:
    """The kernel with other statements up to `path` in its body."""
    made = (*until, *body_of(kernel, path)[path[-1] + 1 :])
    return with_body(kernel, path[:-1], made)
