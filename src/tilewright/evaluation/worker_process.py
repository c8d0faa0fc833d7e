"""Starts, uses and ends one worker process, for the executor."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.core.tasks import target_for
from tilewright.sandbox.child import Child
from tilewright.sandbox.forking import prepared

_PASSED_ON = (
    "PATH", "HOME", "LANG", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "TILEWRIGHT_TORCH",
    "TILEWRIGHT_KERNELBENCH", "TILEWRIGHT_TRITON",
)  # fmt: skip
_PROGRAM = "tilewright.evaluation.worker"
_LOG_BYTES = 4000
_MAX_BYTES = 1 << 28


class WorkerProcess:
    """A running worker, with a folder of its own and a clean environment (no secrets).

    Messages are JSON, so data from a worker are never executed. With the names of `modules`, the
    worker is forked from a process that has imported them, if the system supports this.
    """

    def __init__(self, *modules: str) -> None:
        # The worker's own folder, so that files of a killed worker are deleted.
        self._scratch = tempfile.TemporaryDirectory(
            prefix="tilewright-worker-", ignore_cleanup_errors=True
        )
        # Sandboxed commands of a worker may run as another user, who must be able to enter this
        # folder.
        Path(self._scratch.name).chmod(0o711)
        self._log = (Path(self._scratch.name) / "log").open("w+b")
        environment = _environment()
        preparation = prepared((_PROGRAM, *modules), environment) if modules else None
        self._child = Child(
            _PROGRAM,
            *(() if preparation else (str(os.getpid()),)),
            environment={**environment, "TMPDIR": self._scratch.name},
            output=self._log,
            max_bytes=_MAX_BYTES,
            preparation=preparation,
        )

    @property
    def pid(self) -> int:
        """Process id, which is also the id of the process group."""
        return self._child.pid

    def fileno(self) -> int:
        """Descriptor that becomes readable when a reply has arrived or the worker has ended."""
        return self._child.fileno()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message. If the worker has ended, `receive` reports it."""
        self._child.send_json(message)

    def receive(self) -> Any:
        """The next reply; `EOFError` if the worker has ended."""
        return self._child.receive_json()

    def kill(self) -> str:
        """Kill the whole process group, release all resources, and return the end of the output."""
        self._child.kill()
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - _LOG_BYTES))
        log = self._log.read().decode(errors="replace")
        self._log.close()
        self._scratch.cleanup()
        return log

    @property
    def ended_with_server(self) -> bool:
        """Whether it ended because the process that had forked it ended first; known after
        `kill`."""
        return self._child.ended_with_server

    @property
    def exit_text(self) -> str:
        """How the process ended; call it after `kill`."""
        return self._child.exit_text


def start_worker(task: str, settings: Mapping[str, object]) -> WorkerProcess:
    """A worker for a task, in a process that has imported the task's target."""
    try:
        target = target_for(task, settings)
    except Exception:  # the worker reports it when it opens the task
        return WorkerProcess()
    return WorkerProcess(type(target).__module__)


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # There is one worker per core, so threads of a library would only slow the other workers down.
    single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return {**kept, **single}
