"""Scales the rows of a product after the summation, instead of the rows of its first operand."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import Kernel, Op, Path, Region
from tilewright.proposers.nki.rewrites.uses import (
    body_of,
    follows,
    is_whole,
    op_at,
    replaced_op,
    uses,
)

_KEEPS_RANGE = ("float32", "tfloat32", "bfloat16")
"""Types in which unscaled numbers do not overflow earlier than in float32."""


def defer(kernel: Kernel, path: Path) -> Kernel:
    """The kernel in which a multiplication by a column is moved from an operand's rows to the
    result's rows.

    The scaled tile may only be copied or transposed, and must become the stationary operand, whose
    rows are those of the result.
    """
    scale = op_at(kernel, path)
    tensors = kernel.tensors()
    if scale.name != "tensor_scalar" or scale.get("op0") != "nl.multiply" or scale.get("op1"):
        raise NotApplicableError("the instruction is not a multiplication by a scalar or column")
    target, factor = scale.region("dst"), scale.get("operand0")
    if not is_whole(target, tensors[target.tensor]):
        raise NotApplicableError("the instruction scales only a part of a tile")
    products = list(_products(kernel, path, target.tensor))
    sums = {op_at(kernel, place).region("dst").tensor for place in products}
    if len(sums) != 1:
        raise NotApplicableError("the scaled tile is not used by exactly one sum of products")
    total = sums.pop()
    found = uses(kernel, total)
    if set(found.written) != set(products):
        raise NotApplicableError(f"{total} also sums other products")
    if any(not is_whole(r, tensors[total]) for p in found.written for r in op_at(kernel, p).writes):
        raise NotApplicableError(f"{total} is summed in parts")
    if found.home[: len(path) - 1] != path[:-1] or found.home < path:
        raise NotApplicableError(f"{total} is created before the scaled tile")
    readers = [place for place in found.read if place not in found.written]
    if any(op_at(kernel, place).name != "tensor_copy" for place in readers):
        raise NotApplicableError(f"{total} has uses other than copies")
    if isinstance(factor, Region):
        _require_kept(kernel, path, factor, readers)
    made = kernel
    for place in readers:
        copy = op_at(kernel, place)
        times = (("op0", "nl.multiply"), ("operand0", _of(factor)))
        after = (("dst", copy.region("dst")), ("data", copy.region("src")), *times)
        made = replaced_op(made, place, Op("tensor_scalar", after))
    plain = Op("tensor_copy", (("dst", target), ("src", scale.region("data"))))
    return replaced_op(made, path, plain) if plain.reads != (target,) else replaced_op(made, path)


def _of(factor: object) -> Region | float:
    assert isinstance(factor, (Region, int, float))
    return factor


def _require_kept(kernel: Kernel, path: Path, factor: Region, readers: list[Path]) -> None:
    """The column must exist where the result is copied, and have the same contents."""
    home = uses(kernel, factor.tensor)
    if any(follows(place, path) for place in home.written):
        raise NotApplicableError(f"{factor.tensor} changes before the result is copied")
    rows = factor.dims[0][1]
    for place in readers:
        if not follows(place, path) or op_at(kernel, place).region("src").dims[0][1] != rows:
            raise NotApplicableError("the rows of the result are not those of the scaled tile")


def _products(kernel: Kernel, path: Path, name: str) -> Iterator[Path]:
    """The products whose stationary operand is a copy or transpose of a tile's rows."""
    tensors = kernel.tensors()
    waiting, rows = [(name, False)], tensors[name].shape[0]
    found = uses(kernel, name)
    if found.home[:-1] != path[:-1]:
        raise NotApplicableError(f"{name} lives longer than an iteration")
    if any(follows(place, path) for place in found.written if place != path):
        raise NotApplicableError(f"{name} is written again")
    body_of(kernel, path)
    while waiting:
        tile, turned = waiting.pop()
        if tensors[tile].dtype not in _KEEPS_RANGE:
            raise NotApplicableError(f"{tile} is {tensors[tile].dtype}")
        for place in uses(kernel, tile).read:
            op = op_at(kernel, place)
            if place == path or (tile == name and place < path):
                continue
            if tile == name and not follows(place, path):
                raise NotApplicableError(f"{name} is used elsewhere")
            regions = [region for key, region in op.regions if key != "dst"]
            if len([r for r in regions if r.tensor == tile]) != 1:
                raise NotApplicableError("one instruction uses the scaled tile twice")
            (region,) = [r for r in regions if r.tensor == tile]
            if not _is_all(region, tensors[tile].row, rows, turned, tensors[tile].shape):
                raise NotApplicableError("an instruction uses only some of the rows")
            if op.name == "nc_matmul" and turned and op.get("stationary") == region:
                yield place
                continue
            into = op.region("dst")
            if op.name not in ("tensor_copy", "nc_transpose") or (
                op.name != "tensor_copy" and turned
            ):
                raise NotApplicableError(
                    f"the result of {op.name} is not proportional to the scaled rows"
                )
            if (
                not is_whole(into, tensors[into.tensor])
                or len(uses(kernel, into.tensor).written) != 1
            ):
                raise NotApplicableError(f"{into.tensor} also contains other data")
            waiting.append((into.tensor, turned or op.name == "nc_transpose"))


def _is_all(region: Region, row: int, rows: int, turned: bool, shape: tuple[int, ...]) -> bool:
    """Whether a region has all rows (columns, if it is transposed) in order."""
    if turned:
        free = [dim for dim in region.dims[1:] if dim[1] > 1]
        _, start = region.offset.divided(row)
        return free == [(1, rows)] and row == rows and not start.terms and not start.constant
    partition, _ = region.offset.divided(row)
    whole = region.dims[0] == (row, rows) and shape[0] == rows
    return whole and not partition.terms and not partition.constant
