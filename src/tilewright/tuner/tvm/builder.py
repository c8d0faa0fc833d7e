"""Compiles schedules in other processes: one that crashes or hangs ends nothing but itself."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal

from tilewright.tuner.device import GpuDevice
from tilewright.tuner.ptxas import misfit
from tilewright.tuner.tvm.answering import AnsweringProcess, LateAnswerError, NoAnswerError
from tilewright.tuner.tvm.targets import TuningTarget

BUILD_TIMEOUT_S = 60.0
_LINKED = ["-Wl,--no-as-needed", "-lm"]  # stands before the objects, where linkers may drop it


@dataclass(frozen=True)
class Built:
    """A library file, or why there is none."""

    library: Path | None
    log: str = ""
    failure: Literal["build", "crashed", "timeout"] | None = None


class Builder:
    """Builds shared libraries into a folder of its own."""

    def __init__(
        self,
        target: Any,
        workers: int = 1,
        device: GpuDevice | None = None,
        timeout_s: float = BUILD_TIMEOUT_S,
    ) -> None:
        """Kernels that do not fit `device`, if it is given, fail to build."""
        self._target, self._device, self._timeout_s = target, device, timeout_s
        self._folder = tempfile.TemporaryDirectory(prefix="tilewright-tune-")
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="build")
        self._workers = workers
        self._processes: list[AnsweringProcess] = []
        self._free: SimpleQueue[AnsweringProcess] = SimpleQueue()
        self._count = 0

    def __enter__(self) -> Builder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, schedule: Any) -> Future[Built]:
        """Start building one schedule's module."""
        from tvm.ir import save_json

        if not self._processes:
            self._open()
        self._count += 1
        path = Path(self._folder.name) / f"{self._count}.so"
        return self._threads.submit(self._build, str(save_json(schedule.mod)), path)

    def build(self, schedules: Sequence[Any]) -> list[Built]:
        """Build all; a failure is a result."""
        return [future.result() for future in [self.submit(s) for s in schedules]]

    def close(self) -> None:
        """Stop the compilers and forget the libraries. Idempotent."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.kill()
        self._threads.shutdown()
        for process in self._processes:
            process.close()
        self._folder.cleanup()

    def _open(self) -> None:
        from tvm.ir import save_json

        opening = {
            "target": str(save_json(self._target)),
            "device": asdict(self._device) if self._device else None,
        }
        # Forked children must find no thread of a library holding a lock.
        environment = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        for _ in range(self._workers):
            process = AnsweringProcess("tilewright.tuner.tvm.build_process", environment, opening)
            self._processes.append(process)
            self._free.put(process)

    def _build(self, module: str, path: Path) -> Built:
        request = {"module": module, "library": str(path), "timeout_s": self._timeout_s}
        process = self._free.get()
        try:
            answer = process.ask(request, self._timeout_s)
        except LateAnswerError:
            return Built(None, f"not compiled within {self._timeout_s:g} s", "timeout")
        except NoAnswerError:
            return Built(None, "the compiling process ended", "crashed")
        finally:
            self._free.put(process)
        if answer["failure"] is not None:
            return Built(None, answer["log"], answer["failure"])
        return Built(path)


def open_builder(target: TuningTarget) -> Builder:
    """The builder of a target: for a GPU on all cores, and with what ptxas says as a check.

    Without nvcc there is no such check. For a CPU the cores build that measuring leaves free; if
    there are none, all of them before it.
    """
    device, cores = target.device, len(os.sched_getaffinity(0))
    if not isinstance(device, GpuDevice):
        return Builder(target.target, workers=target.spare_cores or cores)
    return Builder(target.target, cores, device if shutil.which("nvcc") else None)


def compile_module(module: Any, target: Any, path: Path, device: GpuDevice | None = None) -> Built:
    """Compile one scheduled module into a library file, in this process.

    A kernel that does not fit `device`, by what ptxas says, is not worth a library.
    """
    import tvm

    try:
        # Where a CUDA runtime is loaded, TVM compiles for the architecture of the current target.
        with target:
            compiled = tvm.compile(module, target=target)
        if device is not None:
            reason = misfit(str(compiled.mod.imports[0].inspect_source()), device)
            if reason is not None:
                return Built(None, reason, "build")
        # The C++ driver takes twice as long to link, for libraries that no kernel needs.
        compiled.export_library(str(path), cc=shutil.which("gcc"), options=_LINKED)
    except Exception as error:  # every error of TVM's passes and of the linker
        return Built(None, str(error).strip()[-2000:], "build")
    return Built(path)
