"""Compiles schedules in threads of this process: TVM releases the interpreter's lock meanwhile."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Built:
    """A library file, or the compiler's complaint."""

    library: Path | None
    log: str = ""


class Builder:
    """Builds shared libraries into a folder of its own; usable by MetaSchedule and directly."""

    def __init__(self, target: Any, workers: int = 1) -> None:
        self._target = target
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
        return self._threads.submit(compile_module, schedule.mod, self._target, path)

    def build(self, schedules: Sequence[Any]) -> list[Built]:
        """Build all; a failure is a result."""
        return [future.result() for future in [self.submit(s) for s in schedules]]

    def close(self) -> None:
        """Forget the libraries. Idempotent."""
        self._threads.shutdown(cancel_futures=True)
        self._folder.cleanup()


def compile_module(module: Any, target: Any, path: Path) -> Built:
    """Compile one scheduled module into a library file."""
    import tvm

    try:
        tvm.compile(module, target=target).export_library(str(path))
    except Exception as error:  # every error of TVM's passes and of the linker
        return Built(None, str(error).strip()[-2000:])
    return Built(path)
