"""The executor's end of one worker process: start, talk, kill."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.sandbox.child import Child

_PASSED_ON = (
    "PATH", "HOME", "LANG", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "TILEWRIGHT_TORCH",
    "TILEWRIGHT_KERNELBENCH", "TILEWRIGHT_TRITON",
)  # fmt: skip
_LOG_BYTES = 4000
_MAX_BYTES = 1 << 28


class WorkerProcess:
    """A running worker, with a folder of its own and a clean environment (no secrets).

    Messages are JSON: what a worker sends is never executed.
    """

    def __init__(self) -> None:
        # Of its own, so that what a killed worker leaves behind goes with it.
        self._scratch = tempfile.TemporaryDirectory(
            prefix="tilewright-worker-", ignore_cleanup_errors=True
        )
        # What a worker contains may run as another user, which must get to folders in here.
        Path(self._scratch.name).chmod(0o711)
        self._log = (Path(self._scratch.name) / "log").open("w+b")
        self._child = Child(
            "tilewright.evaluation.worker",
            str(os.getpid()),
            environment={**_environment(), "TMPDIR": self._scratch.name},
            output=self._log,
            max_bytes=_MAX_BYTES,
        )

    @property
    def pid(self) -> int:
        """Process id, which is also the process group's."""
        return self._child.pid

    def fileno(self) -> int:
        """Descriptor that becomes readable when a reply, or the worker's end, is there."""
        return self._child.fileno()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message; a worker that is gone is noticed when its reply is read."""
        self._child.send_json(message)

    def receive(self) -> Any:
        """The next reply; `EOFError` when the worker has ended."""
        return self._child.receive_json()

    def kill(self) -> str:
        """Kill the whole process group, release everything; returns the end of its output."""
        self._child.kill()
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - _LOG_BYTES))
        log = self._log.read().decode(errors="replace")
        self._log.close()
        self._scratch.cleanup()
        return log

    @property
    def exit_text(self) -> str:
        """How the process ended, after `kill`."""
        return self._child.exit_text


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # One worker per core: a library's own threads would only compete with the other workers.
    single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return {**kept, **single}
