"""The result of lowering a scheduled GPU function: its launch shape and its buffers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class LoweredKernel:
    """The kernel as TVM lowers it, for comparison with the closed forms of `features.gpu`.

    `shared` and `local` contain the shape of each buffer. In `shared`, the first dimension is the
    stages of a pipeline; `local` is for one virtual thread.
    """

    grid: int
    vthreads: int
    threads: int
    shared: tuple[tuple[int, ...], ...]
    local: tuple[tuple[int, ...], ...]
    shared_bytes: int

    @property
    def register_tile(self) -> int:
        """Number of accumulators of a thread, including all its virtual threads."""
        return self.vthreads * sum(math.prod(shape) for shape in self.local)


@dataclass
class _Seen:
    threads: dict[str, int] = field(default_factory=dict)
    shared: list[tuple[int, ...]] = field(default_factory=list)
    local: list[tuple[int, ...]] = field(default_factory=list)
    shared_bytes: int = 0


def lowered_kernel(module: Any) -> LoweredKernel:
    """The lowered form of a scheduled module with one GPU kernel.

    Runs the passes that place, compact and version buffers, but not code generation. This takes
    milliseconds.
    """
    seen = _seen(module)
    vthreads = seen.threads.get("vthread.x", 1)
    return LoweredKernel(
        grid=seen.threads.get("blockIdx.x", 1),
        vthreads=vthreads,
        threads=seen.threads.get("threadIdx.x", 1),
        shared=tuple(seen.shared),
        local=tuple(seen.local),
        shared_bytes=seen.shared_bytes,
    )


def launch_extents(module: Any) -> tuple[list[int], list[int]]:
    """The sizes of the grid and of a block, each along x, y and z, of a scheduled module with one
    GPU kernel.
    """
    threads = _seen(module).threads
    grid, block = (
        [threads.get(f"{what}.{axis}", 1) for axis in "xyz"] for what in ("blockIdx", "threadIdx")
    )
    return grid, block


def _seen(module: Any) -> _Seen:
    """The threads and buffers of the one function of a scheduled module."""
    import tvm
    from tvm import s_tir

    transform = s_tir.transform
    passes = tvm.transform.Sequential(
        [
            transform.LowerInitBlock(),
            transform.PlanAndUpdateBufferAllocationLocation(),
            transform.ConvertBlocksToOpaque(),
            transform.CompactBufferAllocation(),
            transform.UnifyThreadBinding(),
            transform.LowerMatchBuffer(),
            transform.InjectSoftwarePipeline(),
        ]
    )
    seen = _Seen()
    (function,) = passes(module).functions.values()
    _walk(function.body, seen)
    return seen


def _walk(statement: Any, seen: _Seen) -> None:
    """A plain recursion over statements, because this version of TVM has no statement visitor in
    Python."""
    from tvm import runtime, tirx

    if isinstance(statement, tirx.For) and statement.thread_binding is not None:
        seen.threads[str(statement.thread_binding.thread_tag)] = int(statement.extent)
    for buffer in getattr(statement, "alloc_buffers", None) or []:
        shape = tuple(int(extent) for extent in buffer.shape)
        if buffer.scope() == "shared":
            seen.shared.append(shape)
            bits = runtime.DataType(str(buffer.dtype)).bits
            seen.shared_bytes += math.prod(shape) * bits // 8
        elif buffer.scope() == "local":
            seen.local.append(shape)
    for name in ("body", "block", "init", "then_case", "else_case"):
        child = getattr(statement, name, None)
        if child is not None and hasattr(child, "script"):
            _walk(child, seen)
    for child in getattr(statement, "seq", None) or []:
        _walk(child, seen)
