"""The arrays of an interpreted kernel, for which it finds illegal accesses and races between
programs."""

from __future__ import annotations

from typing import Any

import numpy as np
from arrays import Room  # type: ignore[import-not-found]

_SEVERAL = -1


class MemoryFaultError(Exception):
    """An access that is not allowed; `kind` is the kind of failure."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Memory:
    """All arrays, and the programs of the running launch that accessed each element."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self.rooms: list[tuple[Room, str, int, bool]] = []
        self.program = 0
        self._written: list[Any] = []
        self._read: list[Any] = []
        self._atomic: list[Any] = []
        self._met: set[int] = set()
        self._filled: dict[Room, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def clear(self) -> None:
        """Begin a call, in which there are no arrays yet."""
        self.rooms.clear()
        self._filled.clear()

    def filled(self, room: Room, begin: int, size: int) -> None:
        """Record that a number of bytes from an offset on have values."""
        self._filled[room][begin : begin + size] = True

    def add(self, room: Room, name: str, itemsize: int, role: str) -> None:
        """Add an array that kernels may access. Arrays are added in the order of their
        addresses."""
        self.rooms.append((room, name, itemsize, role != "input"))
        self._filled[room] = np.full(room.size, role != "output")
        self.rooms.sort(key=lambda known: known[0].address)
        self.begin()

    def begin(self) -> None:
        """Begin a launch, which can read everything that was written before."""
        counts = [-(-room.size // item) for room, _, item, _ in self.rooms]
        self._written = [np.zeros(count, np.int32) for count in counts]
        self._read = [np.zeros(count, np.int32) for count in counts]
        self._atomic = [np.zeros(count, bool) for count in counts]
        self._met = set()

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        """Load like the interpreter. Another program must not write the same elements."""
        for number, at, _ in self._places(pointers, mask, np.dtype(dtype).itemsize):
            self._require_filled(number, at)
            before = self._written[number][at]
            foreign = (before != 0) & (before != self.program)
            if np.any(foreign) and not self._follows(before[foreign]):
                self._race(number, at[foreign][0], before[foreign][0], "reads", "writes")
            seen = self._read[number][at]
            mine = (seen == 0) | (seen == self.program)
            self._read[number][at] = np.where(mine, self.program, _SEVERAL)
        return self._native.load(pointers, mask, other, dtype)

    def store(self, pointers: Any, values: Any, mask: Any) -> Any:
        """Store like the interpreter. Another program must not read or write the same elements."""
        values = np.broadcast_to(values, np.shape(pointers))
        for number, at, where in self._places(pointers, mask, values.dtype.itemsize, True):
            before, seen = self._written[number][at], self._read[number][at]
            foreign = (before != 0) & (before != self.program)
            late = (seen != 0) & (seen != self.program)
            if np.any(foreign | late):
                kept = np.ascontiguousarray(pointers)[where]
                empty = np.zeros(kept.shape, values.dtype)
                old = self._native.load(kept, np.ones_like(kept, bool), empty, values.dtype)
                differs = _bits(old) != _bits(values[where])
                if np.any(foreign & differs) and not self._follows(before[foreign & differs]):
                    first = np.argmax(foreign & differs)
                    self._race(number, at[first], before[first], "writes", "writes")
                if np.any(late & differs) and not self._met:
                    first = np.argmax(late & differs)
                    self._race(number, at[first], seen[first], "writes", "reads")
            self._fill(number, at, values.dtype.itemsize)
            self._written[number][at] = self.program
        return self._native.store(pointers, np.ascontiguousarray(values), mask)

    def atomic_rmw(self, operation: Any, pointers: Any, values: Any, mask: Any, order: Any) -> Any:
        """The interpreter's own operation, recorded as atomic."""
        self._meet(pointers, mask, values.dtype.itemsize)
        return self._native.atomic_rmw(operation, pointers, values, mask, order)

    def atomic_cas(self, pointers: Any, compared: Any, values: Any, order: Any) -> Any:
        """The interpreter's own operation, recorded as atomic."""
        self._meet(pointers, np.ones(np.shape(pointers), bool), values.dtype.itemsize)
        return self._native.atomic_cas(pointers, compared, values, order)

    def _meet(self, pointers: Any, mask: Any, itemsize: int) -> None:
        """An atomic operation orders the earlier writes of its program before later atomic
        operations."""
        for number, at, _ in self._places(pointers, mask, itemsize, True):
            self._require_filled(number, at)
            before = self._written[number][at]
            foreign = (before != 0) & (before != self.program) & ~self._atomic[number][at]
            if np.any(foreign) and not self._follows(before[foreign]):
                first = np.argmax(foreign)
                self._race(number, at[first], before[first], "changes", "writes")
            self._atomic[number][at] = True
        self._met.add(self.program)

    def _fill(self, number: int, at: Any, size: int) -> None:
        room, _, item, _ = self.rooms[number]
        for byte in range(max(size, item)):
            self._filled[room][np.minimum(at * item + byte, room.size - 1)] = True

    def _require_filled(self, number: int, at: Any) -> None:
        """Refuse reads of memory that was never written. On a GPU, it may contain data of an
        earlier call."""
        room, name, item, _ = self.rooms[number]
        missing = ~self._filled[room][at * item]
        if np.any(missing):
            raise MemoryFaultError("wrong_result", f"program {self.program - 1} reads element "
                                   f"{int(at[np.argmax(missing)])} of {name}, to which this call "
                                   "has written nothing")  # fmt: skip

    def _follows(self, programs: Any) -> bool:
        """Whether this program waited for those programs: all of them used atomic operations."""
        return self.program in self._met and all(int(p) in self._met for p in np.unique(programs))

    def _race(self, number: int, at: int, other: int, does: str, did: str) -> None:
        name = self.rooms[number][1]
        by = f"program {other - 1}" if other > 0 else "another program"
        raise MemoryFaultError("race", f"program {self.program - 1} {does} element {int(at)} of "
                               f"{name}, which {by} of the same launch {did}")  # fmt: skip

    def _places(self, pointers: Any, mask: Any, itemsize: int, writes: bool = False) -> list[Any]:
        """For each array, its number, the accessed elements, and their positions in the tile."""
        pointers = np.asarray(pointers)
        where = np.broadcast_to(np.asarray(mask, bool), pointers.shape)
        addresses = pointers[where].astype(np.int64)
        if addresses.size == 0:
            return []
        bases = np.array([room.address for room, *_ in self.rooms], np.int64)
        ends = np.array([room.address + room.size for room, *_ in self.rooms], np.int64)
        which = np.searchsorted(bases, addresses, "right") - 1
        outside = (which < 0) | (addresses + itemsize > ends[np.maximum(which, 0)])
        if np.any(outside):
            self._outside(int(addresses[np.argmax(outside)]), writes)
        if np.any(addresses % itemsize):
            raise MemoryFaultError("misaligned", "an address is not a multiple of the element's "
                                   f"{itemsize} bytes")  # fmt: skip
        found = []
        for number in np.unique(which):
            room, name, item, writable = self.rooms[number]
            if writes and not writable:
                raise MemoryFaultError("input_modified", f"the kernel writes to an input ({name})")
            here = which == number
            inner = where.copy()
            inner[where] = here
            found.append((int(number), (addresses[here] - room.address) // item, inner))
        return found

    def _outside(self, address: int, writes: bool) -> None:
        def away(known: tuple[Room, str, int, bool]) -> int:
            begin = known[0].address
            return int(min(abs(address - begin), abs(address - begin - known[0].size)))

        room, name, item, _ = min(self.rooms, key=away)
        element = (address - room.address) // item
        raise MemoryFaultError("illegal_address", f"program {self.program - 1} "
                               f"{'writes' if writes else 'reads'} element {element} of {name}, "
                               f"which has {room.size // item}")  # fmt: skip


def _bits(values: Any) -> Any:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
