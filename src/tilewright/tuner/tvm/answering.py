"""A process that answers requests with one JSON message each. If it crashes or hangs, the caller
gets an exception.

The process is a `sandbox.child.Child`: when it is ended, the compilers and candidates that it
started are ended too. If the system supports this, it is forked from a process that has imported
its module and TVM.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.core.errors import InternalError
from tilewright.core.secrets import without_secrets
from tilewright.sandbox.child import Child
from tilewright.sandbox.forking import prepared

_START_S = 120.0
_PRELOADED = "tilewright.tuner.tvm.preloaded"


class NoAnswerError(Exception):
    """The process ended instead of answering."""


class LateAnswerError(Exception):
    """The process did not answer in time and was ended."""


class AnsweringProcess:
    """A process that is started with the first request, and again after it was lost."""

    def __init__(
        self, module: str, environment: Mapping[str, str], opening: Mapping[str, Any]
    ) -> None:
        """The process runs `module` with the variables in `environment`, and `opening` is its first
        request."""
        self._module, self._environment, self._opening = module, environment, opening
        self._child: Child | None = None

    def start(self) -> None:
        """Start the process and wait until it can answer; `InternalError` if it does not start."""
        if self._child is not None and not self._child.has_message(
            0
        ):  # otherwise the thread that waits for its end
            return
        self.close()
        environment = {**without_secrets(os.environ), **self._environment}
        with Path(os.devnull).open("wb") as nothing:
            self._child = Child(
                self._module,
                environment=environment,
                output=nothing,
                preparation=prepared([self._module, _PRELOADED], environment),
            )
        try:
            self._exchange(self._opening, _START_S)
        except (NoAnswerError, LateAnswerError) as error:
            self.close()
            raise InternalError(
                f"the process {self._module} does not start: is this machine out of memory?"
            ) from error

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """The answer to a request. Raises `NoAnswerError` or `LateAnswerError` after ending the
        process."""
        self.start()
        try:
            return self._exchange(request, timeout_s)
        except (NoAnswerError, LateAnswerError):
            self.close()
            raise

    def kill(self) -> None:
        """End the process and its children. A caller that waits for an answer gets an exception.
        Can be called by any thread."""
        if (child := self._child) is not None:
            child.signal_end()

    def close(self) -> None:
        """End the process and its children. May be called more than once."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()

    def _exchange(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        assert self._child is not None
        self._child.send_json(request)
        if not self._child.has_message(timeout_s):
            raise LateAnswerError
        try:
            answer: dict[str, Any] = self._child.receive_json()
        except EOFError:
            raise NoAnswerError from None
        return answer
