"""Finds which tiles are in SBUF and PSUM at the same time, and which do not fit.

A tile is live from the first to the last instruction that uses it. A kernel in NKI 2 that does not
fit is refused. In NKI 1, the compiler spills the largest tiles to HBM.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.targets.trainium.machine import Machine
from tilewright.targets.trainium.trace import Memory, Tensor, Trace

ON_CHIP: tuple[Memory, ...] = ("sbuf", "psum")


@dataclass(frozen=True, slots=True)
class Capacity:
    """The on-chip memory that a trace needs.

    `peaks` are the maximum numbers of bytes per partition that are live at once, by memory, before
    spilling. `largest` is the largest tensor at that time, with its size. `spilled` are the tensors
    that do not fit. `previous` gives for each tensor the one whose buffer it reuses; -1 for none.
    """

    peaks: Mapping[Memory, int]
    limits: Mapping[Memory, int]
    largest: Mapping[Memory, tuple[Tensor, int] | None]
    spilled: frozenset[int]
    previous: tuple[int, ...]

    def excess(self) -> tuple[str, int] | None:
        """Why the trace does not fit, with the line of its largest tile; None if it fits."""
        for memory in ON_CHIP:
            peak, limit, largest = self.peaks[memory], self.limits[memory], self.largest[memory]
            if peak > limit and largest is not None:
                tensor, size = largest
                return (
                    f"err_out_of_memory: {peak} bytes per partition of {memory.upper()} are in use "
                    f"at once, the limit is {limit}; the largest tile, {_describe(tensor)}, takes "
                    f"{size}",
                    tensor.line,
                )
        return None


def bytes_in_partition(tensor: Tensor, bank_bytes: int) -> int:
    """Bytes that a tensor takes in each partition. PSUM is allocated in whole banks."""
    if tensor.memory == "psum":
        each = tensor.bytes_per_partition // tensor.blocks
        return tensor.blocks * math.ceil(each / bank_bytes) * bank_bytes
    return tensor.bytes_per_partition


def examine(trace: Trace, machine: Machine) -> Capacity:
    """The memory that a trace needs, the tensors to be spilled, and the buffers that tensors
    share."""
    limits: dict[Memory, int] = {
        "sbuf": machine.memory.sbuf_partition_bytes,
        "psum": machine.memory.psum_partition_bytes,
    }
    bank = machine.memory.psum_bank_bytes
    peaks: dict[Memory, int] = {}
    largest: dict[Memory, tuple[Tensor, int] | None] = {}
    spilled: set[int] = set()
    previous = [-1] * len(trace.tensors)
    length = len(trace.instructions)
    for memory in ON_CHIP:
        used = [t for t in trace.tensors if t.memory == memory and _is_accessed(trace, t)]
        sizes = {t.id: bytes_in_partition(t, bank) for t in used}
        live = _live_bytes(used, sizes, length)
        peaks[memory] = int(live.max(initial=0))
        most = _largest_at(used, sizes, int(live.argmax()))
        largest[memory] = None if most is None else (most, sizes[most.id])
        peak = peaks[memory]
        while peak > limits[memory]:
            # All instances of one place in the source are spilled together, as the compiler does.
            chosen = _largest_at(
                [t for t in used if t.id not in spilled], sizes, int(live.argmax())
            )
            if chosen is None:
                break
            place = (chosen.line, chosen.column)
            gone = {t.id for t in used if (t.line, t.column) == place}
            spilled |= gone
            live = _live_bytes([t for t in used if t.id not in spilled], sizes, length)
            peak = int(live.max(initial=0))
        kept = [t for t in used if t.id not in spilled]
        _share(kept, sizes, limits[memory] - live, machine.issue.copies, previous)
    return Capacity(peaks, limits, largest, frozenset(spilled), tuple(previous))


def _is_accessed(trace: Trace, tensor: Tensor) -> bool:
    """False for a fresh result that was written directly into another tensor."""
    if tensor.first < 0:
        return False
    first = trace.instructions[tensor.first]
    return any(access.tensor is tensor for access in (*first.reads, *first.writes))


def _live_bytes(
    tensors: Iterable[Tensor], sizes: Mapping[int, int], length: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    change = [0] * (length + 1)
    for tensor in tensors:
        size = sizes[tensor.id]
        change[tensor.first] += size
        change[tensor.last + 1] -= size
    return np.cumsum(np.array(change, np.int64))


def _largest_at(tensors: Iterable[Tensor], sizes: Mapping[int, int], index: int) -> Tensor | None:
    live = (t for t in tensors if t.first <= index <= t.last)
    return max(live, key=lambda t: (sizes[t.id], -t.id), default=None)


def _share(
    tensors: Iterable[Tensor],
    sizes: Mapping[int, int],
    spare: np.ndarray[tuple[int], np.dtype[np.int64]],
    most: int,
    previous: list[int],
) -> None:
    """Tensors of one place in the source use its buffers in turn.

    A place has as many buffers as it has tensors that are live at once in program order. If bytes
    are free from its first to its last use (`spare` gives them by instruction), it has up to `most`
    times as many. The smallest places are processed first.
    """
    by_place: dict[tuple[int, int, str], list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        if tensor.loop is not None:
            by_place[tensor.line, tensor.column, tensor.name].append(tensor)
    places = []
    for instances in by_place.values():
        instances.sort(key=lambda t: t.first)
        together = _most_together(instances)
        places.append((together * max(sizes[t.id] for t in instances), together, instances))
    buffers = [1] * len(places)
    order = sorted(range(len(places)), key=lambda i: places[i][0])
    for _ in range(most - 1):
        for i in order:
            size, _, instances = places[i]
            used = spare[instances[0].first : max(t.last for t in instances) + 1]
            if size <= used.min():
                buffers[i] += 1
                used -= size
    for (_, together, instances), copies in zip(places, buffers, strict=True):
        for earlier, later in zip(instances, instances[together * copies :], strict=False):
            if earlier.last < later.first:
                previous[later.id] = earlier.id


def _most_together(instances: list[Tensor]) -> int:
    moments = sorted([(t.first, 1) for t in instances] + [(t.last + 1, -1) for t in instances])
    most = now = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


def _describe(tensor: Tensor) -> str:
    return f"{tensor.name or 'unnamed'} {list(tensor.shape)} {tensor.dtype}"
