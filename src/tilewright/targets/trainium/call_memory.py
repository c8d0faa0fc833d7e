"""Memory with the inputs and outputs of a call, which the evaluator and the interpreter share.

A pipe would copy gigabytes of arrays four times. The memory is kept from run to run, because the
first use of new memory takes longer than the copy.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import sys
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from tilewright.core.records import Argument
from tilewright.core.roles import Data
from tilewright.parts.inputs import bytes_of
from tilewright.targets.trainium.program import Array, Call, argument_type

_ALIGNMENT = 64
"""The offset of every array is a multiple of this number of bytes."""

_UNWRITTEN = 0xFF
"""Every byte of the outputs before a run; floats of it are NaN."""


class CallMemory:
    """One file in memory for the inputs and one for the outputs, without content at first.

    `files` are their names, also for other processes of this user. Create this object before
    `contain_this_process`, which forbids new files in memory.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        given, written = _file(call.inputs), _file(call.outputs)
        self.descriptors, self.files = (given[0], written[0]), (given[1], written[1])
        self._mapped: tuple[mmap.mmap, mmap.mmap] | None = None
        weakref.finalize(self, _close, self.descriptors, self.files)

    def give(self, arrays: Mapping[str, Array]) -> None:
        """Copy the inputs into the memory, and overwrite the outputs of the last run."""
        for argument, place in placed(self._call.inputs, self._maps[0]).items():
            place[...] = arrays[argument].reshape(place.shape)
        np.frombuffer(self._maps[1], np.uint8)[...] = _UNWRITTEN

    def outputs(self) -> dict[str, Data]:
        """The bytes of each output. They change with the next run."""
        found = placed(self._call.outputs, self._maps[1])
        return {n: o.reshape(-1).view(np.uint8).data.toreadonly() for n, o in found.items()}

    @property
    def _maps(self) -> tuple[mmap.mmap, mmap.mmap]:
        if self._mapped is None:
            for descriptor in self.descriptors:
                _fill(descriptor)
            given, written = self.descriptors
            both = mmap.PROT_READ | mmap.PROT_WRITE
            self._mapped = _mapped(given, both), _mapped(written, both)
        return self._mapped


@contextmanager
def opened(files: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The descriptors of the inputs, which can only be read, and of the outputs."""
    given = os.open(files[0], os.O_RDONLY)
    try:
        written = os.open(files[1], os.O_RDWR)
        try:
            yield given, written
        finally:
            os.close(written)
    finally:
        os.close(given)


def mapped_inputs(arguments: Sequence[Argument], descriptor: int) -> dict[str, Array]:
    """The inputs of a run, in a process that may only read them."""
    return placed(arguments, _mapped(descriptor, mmap.PROT_READ))


def mapped_outputs(arguments: Sequence[Argument], descriptor: int) -> dict[str, Array]:
    """Arrays in which a run returns its outputs."""
    return placed(arguments, _mapped(descriptor, mmap.PROT_READ | mmap.PROT_WRITE))


def _mapped(descriptor: int, protection: int) -> mmap.mmap:
    """All pages at once where the system can, because each page fault takes longer than reading the
    page."""
    flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
    return mmap.mmap(descriptor, 0, flags=flags, prot=protection)


def placed(arguments: Sequence[Argument], memory: mmap.mmap) -> dict[str, Array]:
    """The arrays of the arguments, one after the other in the memory."""
    found, at = {}, 0
    for argument in arguments:
        dtype = argument_type(argument).exact
        count = int(np.prod(argument.shape))
        found[argument.name] = np.frombuffer(memory, dtype, count, at).reshape(argument.shape)
        at += _rounded(count * dtype.itemsize)
    return found


def _file(arguments: Sequence[Argument]) -> tuple[int, str]:
    """The descriptor and the name of a file that is large enough for the arguments."""
    size = max(sum(_rounded(bytes_of([argument])) for argument in arguments), _ALIGNMENT)
    if sys.platform == "linux":
        descriptor = os.memfd_create("tilewright-arrays", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, size)
        # In a file that the other process made smaller, the next access would end this process.
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        return descriptor, f"/proc/{os.getpid()}/fd/{descriptor}"
    descriptor, name = tempfile.mkstemp(prefix="tilewright-arrays-")
    os.ftruncate(descriptor, size)
    return descriptor, name


def _fill(descriptor: int) -> None:
    """Give every page of a file its memory, in a quarter less time than writes to mapped pages
    take."""
    size, part = os.fstat(descriptor).st_size, bytes(1 << 20)
    for first in range(0, size, len(part)):
        os.pwrite(descriptor, part[: size - first], first)


def _rounded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _close(descriptors: Sequence[int], files: Sequence[str]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
    for file in files if sys.platform != "linux" else ():
        with suppress(OSError):
            Path(file).unlink()
