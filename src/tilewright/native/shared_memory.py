"""The arrays of a native kernel, in memory that its process and the evaluator both map.

The memory is sealed: a kernel's process can map the inputs only for reading, and cannot change the
size of any memory. Each array is in one of two slots, at an address that changes from call to call.
Random guard bytes around a written array show whether the kernel wrote outside it, and the guard
bytes are surrounded by inaccessible pages. In the first two calls of a process, each array is, in
random order, as close to the preceding and to the following inaccessible page as its alignment
allows. In later calls, its position is drawn at random. The purpose of a call has no influence on
the addresses, so a kernel cannot infer it from them.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Argument
from tilewright.parts.inputs import Array, bytes_of

_AT_EDGES = 2
"""Number of calls of a process after which each array has been at both ends of its pages."""
SLOTS = 2
MAX_ARRAY_BYTES = 256 << 20
"""Maximum total size of all arrays of a workload. The mapped memory is several times larger."""
ALIGNMENT = 64
"""The address of every array is a multiple of this number of bytes."""
_PAGE = 4096
_LINE = 64
_GUARD = 512
"""Random bytes on either side of a written array that are looked at after a checked call."""
_ADD_SEALS = 1033
_SEAL_SEAL, _SEAL_SHRINK, _SEAL_GROW, _SEAL_FUTURE_WRITE = 1, 2, 4, 16


@dataclass(frozen=True, slots=True)
class Place:
    """The position of an array in one call: its slot, and the offset in the slot in bytes."""

    slot: int
    shift: int


class SharedArrays:
    """The memory of inputs and the memory of outputs, with the position of each array."""

    def __init__(self, arguments: Sequence[Argument], rng: np.random.Generator) -> None:
        self.arguments = tuple(arguments)
        self._rng = rng
        self.bytes = [bytes_of([argument]) for argument in arguments]
        self.bodies = [_rounded(size, ALIGNMENT) + 2 * _PAGE for size in self.bytes]
        self.bodies = [_rounded(size, _PAGE) for size in self.bodies]
        self.inputs = SealedMemory("inputs", self._total(written=False))
        self.outputs = SealedMemory("outputs", self._total(written=True))
        self._bodies_of = self._views()
        self._noise = np.frombuffer(rng.bytes(1 << 16), np.uint8)
        self.places: list[Place] = [Place(0, _PAGE) for _ in arguments]
        self._calls = 0
        self._first_at_end = [bool(rng.integers(2)) for _ in arguments]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the memory."""
        self._bodies_of = []
        self.inputs.close()
        self.outputs.close()

    def seal(self) -> None:
        """Seal the memory, so that no other process can map the inputs for writing or change a
        size.
        """
        self.inputs.seal()
        self.outputs.seal(writable=True)

    def place(self, arrays: Mapping[str, Array], *, as_before: bool = False) -> None:
        """Place all arguments for the next call, `as_before` where they were in the last one.
        Written arrays get new guard bytes."""
        self._calls += not as_before
        for i, argument in enumerate(self.arguments):
            size = self.bytes[i]
            if not as_before:
                shift = self._shift(i)
                self.places[i] = Place(int(self._rng.integers(SLOTS)), shift)
            place = self.places[i]
            shift = place.shift
            body = self._bodies_of[i][place.slot]
            body[shift : shift + size] = (
                np.ascontiguousarray(arrays[argument.name]).view(np.uint8).reshape(-1)
            )
            if argument.is_written:
                for start, end in self._guards(i):
                    body[start:end] = self._guard_bytes(place, end - start)

    def read(self) -> None:
        """Load the arrays of the next call into the caches of this core, as far as they fit.

        Without this, the content of the caches after `place` would vary.
        """
        for i, place in enumerate(self.places):
            body = self._bodies_of[i][place.slot]
            for _ in range(2):  # the first pass fills the cache
                np.bitwise_or.reduce(body[place.shift : place.shift + self.bytes[i] : _LINE])

    def written_beside(self) -> str | None:
        """The written array whose guard bytes have changed since `place`, or None."""
        for i, argument in enumerate(self.arguments):
            if not argument.is_written:
                continue
            place = self.places[i]
            body = self._bodies_of[i][place.slot]
            for start, end in self._guards(i):
                wrong = np.flatnonzero(body[start:end] != self._guard_bytes(place, end - start))
                if len(wrong):
                    at = start + int(wrong[0]) - place.shift
                    side = f"{-at} bytes before" if at < 0 else f"{at - self.bytes[i]} bytes after"
                    return f"the kernel wrote {side} {argument.name}"
        return None

    def outputs_now(self) -> dict[str, bytes]:
        """The contents of the written arrays after the last call."""
        return {
            a.name: self._bodies_of[i][self.places[i].slot][
                self.places[i].shift : self.places[i].shift + self.bytes[i]
            ].tobytes()
            for i, a in enumerate(self.arguments)
            if a.is_written
        }

    def _shift(self, i: int) -> int:
        """The offset in its slot at which the argument begins in the next call."""
        last = self.bodies[i] - _rounded(self.bytes[i], ALIGNMENT)
        if self._calls <= _AT_EDGES:
            return last if self._first_at_end[i] == (self._calls == 1) else 0
        between = int(self._rng.integers(_PAGE // ALIGNMENT, last // ALIGNMENT)) * ALIGNMENT
        return (0, between, last)[int(self._rng.integers(3))]

    def _guards(self, i: int) -> list[tuple[int, int]]:
        start, size, body = self.places[i].shift, self.bytes[i], self.bodies[i]
        return [(max(0, start - _GUARD), start), (start + size, min(body, start + size + _GUARD))]

    def _guard_bytes(self, place: Place, count: int) -> Array:
        return self._noise[place.shift % 4096 :][:count]

    def _total(self, *, written: bool) -> int:
        sizes = [b for a, b in zip(self.arguments, self.bodies, strict=True)
                 if a.is_written == written]  # fmt: skip
        return max(_PAGE, SLOTS * sum(sizes))

    def _views(self) -> list[Array]:
        """The slots of each argument, as uint8[SLOTS][size of a slot]."""
        views, at = [], {True: 0, False: 0}
        for argument, body in zip(self.arguments, self.bodies, strict=True):
            memory = self.outputs if argument.is_written else self.inputs
            start = at[argument.is_written]
            view = np.frombuffer(memory.map, np.uint8, SLOTS * body, start)
            views.append(view.reshape(SLOTS, body))
            at[argument.is_written] = start + SLOTS * body
        return views


class SealedMemory:
    """One piece of anonymous memory with a descriptor, mapped here for writing."""

    def __init__(self, name: str, size: int) -> None:
        try:
            self.descriptor = os.memfd_create(
                f"tilewright-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
            )
        except (AttributeError, OSError) as error:
            raise ToolchainMissingError(
                f"this system offers no memory that can be sealed ({error}): native kernels run "
                "only on Linux."
            ) from error
        os.ftruncate(self.descriptor, size)
        self.map = mmap.mmap(self.descriptor, size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def seal(self, *, writable: bool = False) -> None:
        """Fix the size; unless `writable`, also forbid new writable mappings."""
        writing = 0 if writable else _SEAL_FUTURE_WRITE
        fcntl.fcntl(self.descriptor, _ADD_SEALS, _SEAL_SHRINK | _SEAL_GROW | _SEAL_SEAL | writing)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)


def _rounded(size: int, unit: int) -> int:
    return -(-size // unit) * unit
