"""The executor's end of one worker process: start, talk, kill."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.evaluation.framing import MessageReader, write_message

_PASSED_ON = ("PATH", "HOME", "LANG", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT")
_LOG_BYTES = 4000


class WorkerProcess:
    """A running worker in a process group of its own, with a clean environment (no secrets)."""

    def __init__(self) -> None:
        request_read, self._requests = os.pipe()
        self._replies, reply_write = os.pipe()
        # Of its own, so that what a killed worker leaves behind goes with it.
        self._scratch = tempfile.TemporaryDirectory(
            prefix="tilewright-worker-", ignore_cleanup_errors=True
        )
        # What a worker contains may run as another user, which must get to folders in here.
        Path(self._scratch.name).chmod(0o711)
        self._log = (Path(self._scratch.name) / "log").open("w+b")
        self._reader = MessageReader(self._replies)
        try:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "tilewright.evaluation.worker"),
                    *(str(request_read), str(reply_write), str(os.getpid())),
                ],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=(request_read, reply_write),
                env={**_environment(), "TMPDIR": self._scratch.name},
                start_new_session=True,
            )
        finally:
            os.close(request_read)
            os.close(reply_write)

    @property
    def pid(self) -> int:
        """Process id, which is also the process group's."""
        return self._process.pid

    def fileno(self) -> int:
        """Descriptor that becomes readable when a reply, or the worker's end, is there."""
        return self._replies

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message; a worker that is gone is noticed when its reply is read."""
        try:
            write_message(self._requests, message)
        except BrokenPipeError:
            return

    def receive(self) -> Any:
        """The next reply; `EOFError` when the worker has ended."""
        return self._reader.read()

    def kill(self) -> str:
        """Kill the whole process group, release everything; returns the end of its output."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._requests)
        os.close(self._replies)
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - _LOG_BYTES))
        log = self._log.read().decode(errors="replace")
        self._log.close()
        self._scratch.cleanup()
        return log

    @property
    def exit_text(self) -> str:
        """How the process ended, after `kill` or its own end."""
        code = self._process.returncode
        if code is not None and code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with status {code}"


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # One worker per core: a library's own threads would only compete with the other workers.
    single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return {**kept, **single}
