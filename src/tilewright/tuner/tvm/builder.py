"""Compiles schedules in threads of this process: TVM releases the interpreter's lock meanwhile."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tilewright.tuner.device import GpuDevice
from tilewright.tuner.ptxas import misfit
from tilewright.tuner.tvm.targets import TuningTarget

Fits = Callable[[Any], str | None]


@dataclass(frozen=True)
class Built:
    """A library file, or the compiler's complaint."""

    library: Path | None
    log: str = ""


class Builder:
    """Builds shared libraries into a folder of its own; usable by MetaSchedule and directly."""

    def __init__(self, target: Any, workers: int = 1, fits: Fits | None = None) -> None:
        """`fits` says of a compiled module why it is not worth measuring, None if it is."""
        self._target = target
        self._fits = fits
        self._folder = tempfile.TemporaryDirectory(prefix="tilewright-tune-")
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="build")
        self._count = 0

    def __enter__(self) -> Builder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def submit(self, schedule: Any) -> Future[Built]:
        """Start building one schedule's module."""
        self._count += 1
        path = Path(self._folder.name) / f"{self._count}.so"
        return self._threads.submit(compile_module, schedule.mod, self._target, path, self._fits)

    def build(self, schedules: Sequence[Any]) -> list[Built]:
        """Build all; a failure is a result."""
        return [future.result() for future in [self.submit(s) for s in schedules]]

    def close(self) -> None:
        """Forget the libraries. Idempotent."""
        self._threads.shutdown(cancel_futures=True)
        self._folder.cleanup()


def open_builder(target: TuningTarget) -> Builder:
    """The builder of a target: for a GPU on all cores, and with what ptxas says as a check.

    Without nvcc there is no such check. For a CPU the cores build that measuring leaves free; if
    there are none, all of them before it.
    """
    device, cores = target.device, len(os.sched_getaffinity(0))
    if not isinstance(device, GpuDevice):
        return Builder(target.target, workers=target.spare_cores or cores)

    def fits(compiled: Any) -> str | None:
        return misfit(str(compiled.mod.imports[0].inspect_source()), device)

    return Builder(
        target.target,
        workers=cores,
        fits=fits if shutil.which("nvcc") else None,
    )


def compile_module(module: Any, target: Any, path: Path, fits: Fits | None = None) -> Built:
    """Compile one scheduled module into a library file."""
    import tvm

    try:
        # Where a CUDA runtime is loaded, TVM compiles for the architecture of the current target.
        with target:
            compiled = tvm.compile(module, target=target)
        if fits is not None and (reason := fits(compiled)) is not None:
            return Built(None, reason)
        compiled.export_library(str(path))
    except Exception as error:  # every error of TVM's passes and of the linker
        return Built(None, str(error).strip()[-2000:])
    return Built(path)
