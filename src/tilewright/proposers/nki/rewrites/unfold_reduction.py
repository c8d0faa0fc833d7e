"""Replaces a reduction over a few neighbours by one operation on whole tiles for each neighbour."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import (
    Alloc,
    Kernel,
    Op,
    Path,
    Region,
    Statement,
    Tensor,
    spliced,
)
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.uses import between, is_whole, op_at, same_elements, uses

MOST_NEIGHBOURS = 9


def unfold(kernel: Kernel, path: Path) -> Kernel:
    """The kernel in which a reduction of few elements along its last axis is a chain of
    instructions.

    If each element is a product with the same number for a whole row, like the taps of a filter,
    the products are included in the chain: (tile times column) plus the previous sum.
    """
    reduce, tensors = op_at(kernel, path), kernel.tensors()
    if reduce.name != "tensor_reduce" or reduce.get("negate"):
        raise NotApplicableError("the instruction is not a reduction")
    data, target = reduce.region("data"), reduce.region("dst")
    count = data.dims[-1][1]
    if not 2 <= count <= MOST_NEIGHBOURS or target.columns * count != data.columns:
        raise NotApplicableError("the instruction does not reduce one axis with few elements")
    if target.columns < 8 or any(r.tensor == target.tensor for r in reduce.reads):
        raise NotApplicableError("the reduction has too few results, or overwrites its operands")
    if reduce.get("op") == "nl.add":
        chain = _products(kernel, path, data, count)
        if chain is not None:
            return _chained(kernel, path, target, *chain)
    if reduce.get("op") not in ("nl.add", "nl.maximum", "nl.minimum"):
        raise NotApplicableError("no instruction on two tiles computes this operation")
    if tensors[data.tensor].memory == "psum":
        raise NotApplicableError("two operands would be in PSUM")
    parts = [_at(data, number) for number in range(count)]
    made: list[Statement] = []
    total = parts[0]
    for number, part in enumerate(parts[1:], 2):
        into = target if number == count else _tile(kernel, target, made)
        arguments = (("dst", into), ("data1", total), ("data2", part), ("op", _text(reduce)))
        made.append(Op("tensor_tensor", arguments))
        total = into
    return replace(kernel, body=spliced(kernel.body, path, tuple(made)))


def _text(op: Op) -> str:
    name = op.get("op")
    assert isinstance(name, str)
    return name


def _at(region: Region, number: int) -> Region:
    """One of the neighbours for every result."""
    step, _ = region.dims[-1]
    dims = region.dims[:-1] if len(region.dims) > 2 else (region.dims[0], (1, 1))
    return Region(region.tensor, region.offset + step * number, dims)


def _tile(kernel: Kernel, like: Region, made: list[Statement]) -> Region:
    """A new tile of float32 with the same number of elements as a region."""
    taken = {s.tensor.name for s in made if isinstance(s, Alloc)}
    names = Names(kernel)
    name = names.fresh("partial")
    while name in taken:
        name = names.fresh("partial")
    tensor = Tensor(name, (like.dims[0][1], like.columns), "float32", "sbuf")
    made.append(Alloc(tensor))
    return Region(name, like.offset * 0, ((like.columns, like.dims[0][1]), (1, like.columns)))


def _products(
    kernel: Kernel, path: Path, data: Region, count: int
) -> tuple[Path, list[Region], list[Region]] | None:
    """The product before the reduction, and the tiles and columns of each neighbour; None if there
    is none."""
    tensors = kernel.tensors()
    found = uses(kernel, data.tensor)
    if len(found.written) != 1 or set(found.read) != {path}:
        return None
    place = found.written[0]
    if place[:-1] != path[:-1] or place > path:
        return None
    op = op_at(kernel, place)
    if op.name != "tensor_tensor" or op.get("op") != "nl.multiply":
        return None
    if not is_whole(op.region("dst"), tensors[data.tensor]) or not same_elements(
        op.region("dst"), data
    ):
        return None
    for one, other in (("data1", "data2"), ("data2", "data1")):
        tile, weights = op.region(one), op.region(other)
        if tile.dims[-1][1] != count or weights.dims[-1][1] != count:
            continue
        if any(step for step, size in weights.dims[1:-1] if size > 1):
            continue
        if tensors[weights.tensor].dtype != "float32" or tensors[weights.tensor].memory != "sbuf":
            continue
        changed = {r.tensor for o in between(kernel, place, path) for r in o.writes}
        if {tile.tensor, weights.tensor} & changed or tile.columns != data.columns:
            continue
        step, _ = weights.dims[-1]
        columns = [
            Region(weights.tensor, weights.offset + step * n, (weights.dims[0], (1, 1)))
            for n in range(count)
        ]
        return place, [_at(tile, n) for n in range(count)], columns
    return None


def _chained(
    kernel: Kernel, path: Path, target: Region, place: Path, tiles: list[Region],
    columns: list[Region],
) -> Kernel:  # fmt: skip
    made: list[Statement] = []
    total = _tile(kernel, target, made)
    times = (("op0", "nl.multiply"), ("operand0", columns[0]))
    made.append(Op("tensor_scalar", (("dst", total), ("data", tiles[0]), *times)))
    for number, (tile, column) in enumerate(zip(tiles[1:], columns[1:], strict=True), 2):
        into = target if number == len(tiles) else _tile(kernel, target, made)
        made.append(Op("scalar_tensor_tensor", (
            ("dst", into), ("data", tile), ("op0", "nl.multiply"), ("operand0", column),
            ("op1", "nl.add"), ("operand1", total))))  # fmt: skip
        total = into
    after = replace(kernel, body=spliced(kernel.body, path, tuple(made)))
    return replace(after, body=spliced(after.body, place, ()))
