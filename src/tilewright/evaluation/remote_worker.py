"""A worker process on another machine: `ssh HOST tilewright worker`, one JSON object a line.

The messages are those of `worker.py`, in both directions. Data from another machine are parsed and
never executed. If the data are not a valid message, the worker is ended, and its candidate fails.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tilewright.core.errors import HostError
from tilewright.evaluation.sent_outcome import MOST_BYTES, has_form
from tilewright.sandbox.child import WHOLE_S, is_readable

COMMAND = ("tilewright", "worker")
"""The command that is started on the other machine, which must be on the PATH of commands that ssh
runs.
"""
MOST_PRINTED = 200
"""Maximum number of lines that a login shell or a message of the day may print before the first
reply.
"""
_LOG_BYTES = 2000


class RemoteWorker:
    """A worker on `host`, as ssh names it, with the interface of `WorkerProcess`.

    `versions` are the versions of this machine for the task. A worker with other versions is
    refused. Raises `HostError` if no worker opens the task.
    """

    def __init__(self, host: str, versions: Mapping[str, str]) -> None:
        self._host, self._versions = host, versions
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `kill`)
        self._opened = False
        self._may_print = MOST_PRINTED
        self._said = ""
        words = ["ssh", "-o", "BatchMode=yes", "--", host, *COMMAND]
        try:
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, bufsize=0,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._log.close()
            raise HostError(f"ssh cannot be started ({error}). Install an ssh client.") from error

    @property
    def pid(self) -> int:
        """Process id of the local process that is connected to the other machine."""
        return self._process.pid

    def fileno(self) -> int:
        """Descriptor that becomes readable when a reply has arrived or the worker has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message. If the worker has ended, `receive` reports it."""
        assert self._process.stdin is not None
        with suppress(OSError):
            data = memoryview(json.dumps(message).encode() + b"\n")
            while data:
                data = data[self._process.stdin.write(data) :]

    def receive(self) -> Any:
        """The next reply; `EOFError` if the worker has ended or its answer is not valid."""
        line = self._line()
        while self._may_print and not line.startswith(b"{"):
            self._may_print -= 1
            line = self._line()
        self._may_print = 0
        try:
            reply = json.loads(line)
        except (ValueError, RecursionError):
            reply = None
        if not has_form(reply):
            raise self._gone(f"answered {line[:80].decode(errors='replace')!r}")
        if "ready" in reply:
            self._require_same(reply.get("versions"))
            self._opened = True
        return reply

    def kill(self) -> str:
        """End the connection, and thereby the worker; returns the end of its output."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        return self._close_log()

    ended_with_server = False
    """A worker on another machine is not forked from a process of this one."""

    @property
    def exit_text(self) -> str:
        """How the worker ended; call it after `kill`."""
        return self._said or f"on {self._host} ended"

    def _line(self) -> bytes:
        """Read one line byte by byte, so that `fileno` becomes readable again for unread data."""
        parts, deadline = bytearray(), math.inf
        while len(parts) < MOST_BYTES:
            if parts and not is_readable(self.fileno(), deadline):
                raise self._gone("sent only a part of a line")
            byte = os.read(self.fileno(), 1)
            if not byte:
                raise self._gone("ended")
            if byte == b"\n":
                return bytes(parts)
            if not parts:
                deadline = time.monotonic() + WHOLE_S
            parts += byte
        raise self._gone("sent a line that does not end")

    def _gone(self, how: str) -> Exception:
        self._said = f"on {self._host} {how}"
        if self._opened:
            return EOFError(self._said)
        said = self.kill().strip().splitlines()
        return HostError(
            f"a worker {self._said} before it opened the task ({said[-1] if said else 'no word'}): "
            f"check that `ssh {self._host} {' '.join(COMMAND)}` starts and waits for input. Then "
            "repeat the command, which continues the run."
        )

    def _require_same(self, there: object) -> None:
        if not isinstance(there, dict):
            raise self._gone("named no versions")
        for name, here in self._versions.items():
            if name in there and there[name] != here:
                raise HostError(
                    f"the worker on {self._host} has {name} {there[name]}, and this machine "
                    f"{here}. Results of different versions are not comparable, so install the "
                    "same version on both."
                )

    def _close_log(self) -> str:
        if self._log.closed:
            return ""
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - _LOG_BYTES))
        text = self._log.read().decode(errors="replace")
        self._log.close()
        return text
