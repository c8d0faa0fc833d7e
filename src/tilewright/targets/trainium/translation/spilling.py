"""Handles tensors that do not fit into on-chip memory: NKI 1 moves them to HBM implicitly, NKI 2
needs explicit transfers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.targets.trainium.recording import Recorded
from tilewright.targets.trainium.trace import Tensor
from tilewright.targets.trainium.translation.clipping import Operands, Place, UntranslatableError
from tilewright.targets.trainium.translation.lines import Line, line_of
from tilewright.targets.trainium.translation.rolling import Item, Made

_TILE_ELEMENTS = 1 << 16
_PSUM_BYTES, _SBUF_BYTES = 16 << 10, 176 << 10


def is_too_large(tensor: Tensor) -> bool:
    """Whether a single tensor is larger than its memory, or than one tile can be."""
    size = tensor.bytes_per_partition
    if tensor.memory == "psum":
        return size > _PSUM_BYTES
    return tensor.memory == "sbuf" and (
        size > _SBUF_BYTES or size > _TILE_ELEMENTS * tensor.itemsize
    )


class Spill:
    """Instructions on such tensors, with separate tiles that are loaded and stored."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = {tensor.id: tensor for tensor in tensors if is_too_large(tensor)}
        self._next = len(tensors)
        self.names: dict[int, str] = {}

    def __contains__(self, tensor: int) -> bool:
        return tensor in self._tensors

    def around(
        self, entry: Recorded, operands: Operands, lines: Callable[[Operands], Sequence[Line]]
    ) -> list[Item]:
        """The instruction with the transfers of its operands before and after it."""
        reads, writes = operands
        if not any(place.tensor in self._tensors for place in (*reads, *writes)):
            return list(lines(operands))
        if entry.instruction.attributes.get("accumulate"):
            raise UntranslatableError("a sum of products that does not fit into PSUM")
        before: list[Item] = []
        after: list[Item] = []
        loaded = [self._loaded(place, before) for place in reads]
        stored = [self._stored(place, before, after) for place in writes]
        return [*before, *lines((loaded, stored)), *after]

    def _loaded(self, place: Place, before: list[Item]) -> Place:
        tensor = self._tensors.get(place.tensor)
        if tensor is None:
            return place
        tile = self._tile(place, tensor, "sbuf", before)
        before.append(line_of("dma_copy", {"dst": tile, "src": place}))
        return tile

    def _stored(self, place: Place, before: list[Item], after: list[Item]) -> Place:
        tensor = self._tensors.get(place.tensor)
        if tensor is None:
            return place
        result = tile = self._tile(place, tensor, tensor.memory, before)
        if tensor.memory == "psum":
            tile = self._tile(place, tensor, "sbuf", after)
            after.append(line_of("tensor_copy", {"dst": tile, "src": result}))
        after.append(line_of("dma_copy", {"dst": place, "src": tile}))
        return result

    def _tile(self, place: Place, tensor: Tensor, memory: str, items: list[Item]) -> Place:
        """A new tile with the size of a region."""
        counts = [count for _, count in place.dims]
        number, self._next = self._next, self._next + 1
        self.names[number] = f"part{number}"
        items.append(Made(number, (tuple(counts), tensor.dtype, memory)))
        steps = [1] * len(counts)
        for axis in range(len(counts) - 2, -1, -1):
            steps[axis] = steps[axis + 1] * counts[axis + 1]
        return Place(number, 0, tuple(zip(steps, counts, strict=True)))
