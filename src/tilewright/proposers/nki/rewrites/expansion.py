"""Widens tiles, so that each contains the separate tiles of several iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import Alloc, Body, Loop, Region, Statement, Tensor, mapped_regions
from tilewright.proposers.nki.linear import Linear

PSUM_BYTES = 16 << 10
SBUF_BYTES = 176 << 10


def require_room(tensor: Tensor) -> None:
    """Raises `NotApplicableError` for a tile that is longer than a partition of its memory."""
    limit = PSUM_BYTES if tensor.memory == "psum" else SBUF_BYTES
    if tensor.partition_bytes > limit:
        raise NotApplicableError(f"{tensor.name} would be too long for a partition")


def expanded(tensor: Tensor, copies: int) -> Tensor:
    """The tile with this number of copies after one another in each partition."""
    return replace(tensor, shape=(tensor.shape[0], copies * tensor.shape[1], *tensor.shape[2:]))


def moved(region: Region, tensor: Tensor, copies: int, copy: Linear) -> Region:
    """A region of a tile as a region of one of its copies in the wider tile."""
    return carried(region, tensor, region.tensor, tensor.row * copies, copy * tensor.row)


def carried(
    region: Region, tensor: Tensor, name: str, row: int, begin: Linear, step: int = 1
) -> Region:
    """A region of a tile in the tensor `name`, whose partitions have a distance of `row` elements.

    There, the elements of a partition begin at `begin` and have a distance of `step`.
    """
    if not region.dims or region.dims[0][0] != tensor.row:
        raise NotApplicableError(f"{tensor.name} is not accessed partition by partition")
    partition, free = region.offset.divided(tensor.row)
    dims = ((distance * step, count) for distance, count in region.dims[1:])
    return Region(name, partition * row + free * step + begin, ((row, region.dims[0][1]), *dims))


def widened_tiles(body: Body, copies: Mapping[str, tuple[int, Linear]]) -> Body:
    """The body in which each of these tiles is replaced by a wider one, of which it uses one
    copy."""
    tensors: dict[str, Tensor] = {}
    return _widened(body, copies, tensors)


def _widened(
    body: Body, copies: Mapping[str, tuple[int, Linear]], tensors: dict[str, Tensor]
) -> Body:
    found: list[Statement] = []
    for statement in body:
        if isinstance(statement, Loop):
            found.append(replace(statement, body=_widened(statement.body, copies, tensors)))
        elif isinstance(statement, Alloc):
            tensor = statement.tensor
            tensors[tensor.name] = tensor
            many = copies.get(tensor.name)
            found.append(Alloc(expanded(tensor, many[0])) if many else statement)
        else:
            found.append(mapped_regions(statement, _mover(copies, tensors)))
    return tuple(found)


def _mover(
    copies: Mapping[str, tuple[int, Linear]], tensors: Mapping[str, Tensor]
) -> Callable[[Region], Region]:
    def move(region: Region) -> Region:
        many = copies.get(region.tensor)
        if many is None:
            return region
        return moved(region, tensors[region.tensor], many[0], many[1])

    return move
