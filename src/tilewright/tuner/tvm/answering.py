"""A process that answers requests, one JSON object per line each way; whatever befalls it is told.

Requests go to its stdin, answers come on the descriptor that its first argument numbers. It leads
a process group of its own: ending it ends the compilers and candidates that it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from tilewright.core.errors import InternalError
from tilewright.core.secrets import without_secrets

_START_S = 120.0


class NoAnswerError(Exception):
    """The process ended instead of answering."""


class LateAnswerError(Exception):
    """There was no answer in time; the process was ended."""


class AnsweringProcess:
    """Started when first asked, and again after it was lost."""

    def __init__(
        self, module: str, environment: Mapping[str, str], opening: Mapping[str, Any]
    ) -> None:
        """`module` is run with `environment` added, and asked `opening` before all else."""
        self._module, self._environment, self._opening = module, environment, opening
        self._process: subprocess.Popen[str] | None = None
        self._answers = -1

    def start(self) -> None:
        """Have it ready to answer; `InternalError` if it does not start."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        answers, theirs = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module, str(theirs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            pass_fds=[theirs],
            start_new_session=True,
            env={**without_secrets(os.environ), **self._environment},
        )
        os.close(theirs)
        self._answers = answers
        try:
            self._exchange(self._opening, _START_S)
        except (NoAnswerError, LateAnswerError) as error:
            self.close()
            raise InternalError(
                f"the process {self._module} does not start: is this machine out of memory?"
            ) from error

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Its answer; raises `NoAnswerError` or `LateAnswerError`, with the process ended."""
        self.start()
        try:
            return self._exchange(request, timeout_s)
        except (NoAnswerError, LateAnswerError):
            self.close()
            raise

    def kill(self) -> None:
        """End the process and all it started; who waits for its answer is told. Any thread may."""
        if (process := self._process) is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process and all it started. Idempotent."""
        self.kill()
        process, self._process = self._process, None
        if process is None:
            return
        process.wait()
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        os.close(self._answers)

    def _exchange(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise NoAnswerError from error
        end, text = time.monotonic() + timeout_s, b""
        while not text.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                raise LateAnswerError
            part = os.read(self._answers, 1 << 16)
            if not part:
                raise NoAnswerError
            text += part
        answer: dict[str, Any] = json.loads(text)
        return answer
