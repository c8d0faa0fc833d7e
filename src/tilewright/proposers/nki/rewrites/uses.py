"""Finds where a tile is written and read, in the order in which one iteration runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.analysis.places import extents
from tilewright.proposers.nki.ir import (
    Alloc,
    Body,
    Kernel,
    Loop,
    Op,
    Path,
    Region,
    Tensor,
    at,
    ops,
    spliced,
    whole,
)
from tilewright.proposers.nki.linear import Linear

BY_PARTITION = (
    "dma_copy", "tensor_copy", "memset", "tensor_tensor", "tensor_scalar", "activation",
    "scalar_tensor_tensor", "reciprocal", "tensor_reduce", "tensor_tensor_scan",
    "tensor_copy_predicated",
)  # fmt: skip
"""Instructions that do the same in every partition, with the data in this partition."""


@dataclass(frozen=True, slots=True)
class Uses:
    """The uses of a tensor: the places that create, write and read it, in the order of the text."""

    home: Path
    written: tuple[Path, ...]
    read: tuple[Path, ...]


def uses(kernel: Kernel, name: str) -> Uses:
    """All uses of a tensor that the kernel creates."""
    home: Path | None = None
    written, read = [], []
    for path, statement in kernel.statements():
        if isinstance(statement, Alloc) and statement.tensor.name == name:
            home = path
        elif isinstance(statement, Op):
            if any(region.tensor == name for region in statement.writes):
                written.append(path)
            if any(region.tensor == name for region in statement.reads):
                read.append(path)
    if home is None:
        raise NotApplicableError(f"{name} is not created by the kernel")
    return Uses(home, tuple(written), tuple(read))


def body_of(kernel: Kernel, path: Path) -> Body:
    """The body that contains a place."""
    if len(path) == 1:
        return kernel.body
    loop = at(kernel.body, path[:-1])
    assert isinstance(loop, Loop)
    return loop.body


def with_body(kernel: Kernel, path: Path, body: Body) -> Kernel:
    """The kernel with another body of the loop at `path`, or of its own if the path is empty."""
    if not path:
        return replace(kernel, body=body)
    loop = at(kernel.body, path)
    assert isinstance(loop, Loop)
    return replace(kernel, body=spliced(kernel.body, path, (replace(loop, body=body),)))


def op_at(kernel: Kernel, path: Path) -> Op:
    """The instruction at a place."""
    found = at(kernel.body, path)
    if not isinstance(found, Op):
        raise NotApplicableError("there is no such instruction")
    return found


def is_whole(region: Region, tensor: Tensor) -> bool:
    """Whether a region contains its whole tensor, with any shape."""
    return region.offset == Linear() and _merged(region) == _merged(whole(tensor))


def _merged(region: Region) -> tuple[tuple[int, int], ...]:
    """The dimensions without those of length one, with adjacent ones merged if they are
    contiguous."""
    found: list[tuple[int, int]] = []
    for number, (step, count) in enumerate(region.dims):
        if number and count == 1:
            continue
        if number > 1 and len(found) > 1 and found[-1][0] == step * count:
            found[-1] = (step, found[-1][1] * count)
        else:
            found.append((step, count))
    return tuple(found)


def transfer_in_loop(kernel: Kernel, path: Path) -> tuple[Loop, Region, Region]:
    """The loop that contains only the transfer at this place, its tile's region and HBM's region.

    `NotApplicableError` if the instruction is not a transfer between a tile and HBM that is alone
    in its loop.
    """
    op = op_at(kernel, path)
    loop = at(kernel.body, path[:-1]) if len(path) > 1 else None
    if op.name != "dma_copy" or not isinstance(loop, Loop) or len(loop.body) != 1:
        raise NotApplicableError("the instruction is not a transfer that is alone in its loop")
    tensors = kernel.tensors()
    near = next((r for _, r in op.regions if tensors[r.tensor].on_chip), None)
    far = next((r for _, r in op.regions if not tensors[r.tensor].on_chip), None)
    if near is None or far is None:
        raise NotApplicableError("the instruction is not a transfer between a tile and HBM")
    return loop, near, far


def same_elements(one: Region, other: Region) -> bool:
    """Whether two regions are the same elements in the same order."""
    return (
        one.tensor == other.tensor and one.offset == other.offset and _merged(one) == _merged(other)
    )


def follows(later: Path, earlier: Path) -> bool:
    """Whether a place comes after another in the text, inside the body that contains `earlier`."""
    depth = len(earlier)
    return (
        len(later) >= depth
        and later[: depth - 1] == earlier[:-1]
        and later[depth - 1] > earlier[-1]
    )


def through(region: Region, tile: Tensor, source: Region, trips: dict[str, int]) -> Region | None:
    """A region of a copied tile as a region of the original; None if unknown."""
    boxes = extents(region, tile, trips)
    if boxes is None or any(box.step != 1 for box in boxes):
        return None
    dims = source.dims
    if len(dims) != len(tile.shape) or source.shape != tile.shape:
        if len(tile.shape) == 2 and _is_run(source) and source.columns == tile.shape[1]:
            dims = (source.dims[0], (1, source.columns))
        else:
            return None
    offset = source.offset
    found: list[tuple[int, int]] = []
    for axis, (box, (step, _)) in enumerate(zip(boxes, dims, strict=True)):
        offset = offset + box.start * step
        if box.dim is not None or axis == 0:
            found.append((step, box.count))
    return Region(source.tensor, offset, tuple(found))


def _is_run(region: Region) -> bool:
    run = 1
    for step, count in reversed(region.dims[1:]):
        if count > 1 and step != run:
            return False
        run *= count
    return True


def replaced_op(kernel: Kernel, path: Path, *made: Op) -> Kernel:
    """The kernel in which one instruction is replaced by others."""
    return replace(kernel, body=spliced(kernel.body, path, made))


def between(kernel: Kernel, start: Path, end: Path) -> Iterator[Op]:
    """Instructions that run after one place and before another in the same iteration.

    `end` is in the body of `start` or deeper. All instructions of loops around `end` are included.
    """
    body = body_of(kernel, start)
    for number in range(start[-1] + 1, end[len(start) - 1] + 1):
        statement = body[number]
        place = (*start[:-1], number)
        if isinstance(statement, Loop):
            yield from ops(statement.body)
        elif isinstance(statement, Op) and place != end:
            yield statement


def enclosing(kernel: Kernel, path: Path) -> set[str]:
    """Variables of the loops around a place."""
    found = set()
    for depth in range(1, len(path)):
        loop = at(kernel.body, path[:depth])
        assert isinstance(loop, Loop)
        found.add(loop.variable)
    return found
