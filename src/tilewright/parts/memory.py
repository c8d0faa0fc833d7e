"""Limits the memory of this process, lets it reuse freed memory, and pauses Python's collector."""

from __future__ import annotations

import ctypes
import gc
import mmap
import resource
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_MAPPED_ALONE = 32 << 20  # the maximum that glibc accepts
_KEPT = 256 << 20
_GAP = 16  # elements between the rows of a matrix that is to be transposed


def keep_freed_memory() -> None:
    """Let the C library reuse the memory of freed large arrays. Without glibc, this has no effect.

    By default, the library returns each large array to the system and maps the next one page by
    page, which took half the CPU time of comparing a host-c kernel's outputs.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_ALONE)
        mallopt(_M_TRIM_THRESHOLD, _KEPT)


def to_transpose(matrix: NDArray[Any]) -> NDArray[Any]:
    """A copy of a matrix that takes less time to transpose, with gaps between its rows.

    Rows that begin at multiples of a large power of two replace one another in a processor's cache,
    which makes reading a column four times as slow.
    """
    rows, columns = matrix.shape
    found: NDArray[Any] = np.empty((rows, columns + _GAP), matrix.dtype)[:, :columns]
    found[...] = matrix
    return found


class KeptMemory:
    """Memory for large arrays, which is used again as soon as its last array is gone.

    It has pages of the usual size. NumPy requests pages of 2 MB, of which a virtual machine may
    have none, so a first array took five times as long to fill.
    """

    def __init__(self) -> None:
        self._free: list[mmap.mmap] = []

    def empty(self, shape: Sequence[int], dtype: Any) -> NDArray[Any]:
        """An array with any content."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        found = next((memory for memory in self._free if len(memory) == size), None)
        if found is None:
            at_once = getattr(mmap, "MAP_POPULATE", 0)  # faster than one page fault for each page
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | at_once
            found = mmap.mmap(-1, size, flags=flags)
        else:
            self._free.remove(found)
        flat: NDArray[Any] = np.frombuffer(found, dtype)  # all views of it refer to this array
        weakref.finalize(flat, self._free.append, found).atexit = False
        return flat.reshape(shape)


@contextmanager
def without_collection() -> Iterator[None]:
    """A context manager that pauses the search for unused objects that refer to one another.

    A trace has a million records and no such objects, so searching it repeatedly only takes time.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def memory_limit(most: int) -> Iterator[None]:
    """A context manager that limits the address space to the present size and `most` further bytes.
    If the system does not report the present size, there is no limit.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    wanted = pages * resource.getpagesize() + most
    limits = [wanted, *(limit for limit in before if limit != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
