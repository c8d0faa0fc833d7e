"""Compiles schedules in other processes, so that a crash or a hang of the compiler affects only one
candidate."""

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
_LINKED = [
    "-Wl,--no-as-needed",
    "-lm",
]  # before the object files, because linkers may ignore it elsewhere


@dataclass(frozen=True)
class Built:
    """A library file, or the reason why there is none."""

    library: Path | None
    log: str = ""
    failure: Literal["build", "crashed", "timeout"] | None = None


class Builder:
    """Builds shared libraries into its own folder."""

    def __init__(
        self,
        target: Any,
        workers: int = 1,
        device: GpuDevice | None = None,
        timeout_s: float = BUILD_TIMEOUT_S,
    ) -> None:
        """If `device` is given, building a kernel that does not fit on it fails."""
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
        """Start building the module of one schedule."""
        from tvm.ir import save_json

        if not self._processes:
            self._open()
        self._count += 1
        path = Path(self._folder.name) / f"{self._count}.so"
        return self._threads.submit(self._build, str(save_json(schedule.mod)), path)

    def build(self, schedules: Sequence[Any]) -> list[Built]:
        """Build all schedules. A failure is a result."""
        return [future.result() for future in [self.submit(s) for s in schedules]]

    def close(self) -> None:
        """Stop the compilers and delete the libraries. May be called more than once."""
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
        # The children are forked, so no other thread may hold a lock of a library.
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
    """The builder of a target. For a GPU, it uses all cores and checks kernels with ptxas.

    Without nvcc, kernels are not checked. For a CPU, the builder uses the cores that are not used
    for measuring. If there are none, it builds on all cores before measuring begins.
    """
    device, cores = target.device, len(os.sched_getaffinity(0))
    if not isinstance(device, GpuDevice):
        return Builder(target.target, workers=target.spare_cores or cores)
    return Builder(target.target, cores, device if shutil.which("nvcc") else None)


def compile_module(module: Any, target: Any, path: Path, device: GpuDevice | None = None) -> Built:
    """Compile one scheduled module into a library file in this process.

    No library is created for a kernel that does not fit on `device` according to ptxas.
    """
    import tvm

    try:
        # If a CUDA runtime is loaded, TVM compiles for the architecture of the current target.
        with target:
            compiled = tvm.compile(module, target=target)
        if device is not None:
            reason = misfit(str(compiled.mod.imports[0].inspect_source()), device)
            if reason is not None:
                return Built(None, reason, "build")
        # The C++ driver takes twice as long to link, because of libraries that kernels do not need.
        compiled.export_library(str(path), cc=shutil.which("gcc"), options=_LINKED)
    except Exception as error:  # every error of TVM's passes and of the linker
        return Built(None, str(error).strip()[-2000:], "build")
    return Built(path)
