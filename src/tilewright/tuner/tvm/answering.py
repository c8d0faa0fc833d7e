"""A process that answers requests, one JSON message each way; whatever befalls it is told.

It is a `sandbox.child.Child`: ending it ends the compilers and candidates that it started.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from subprocess import DEVNULL
from typing import Any

from tilewright.core.errors import InternalError
from tilewright.core.secrets import without_secrets
from tilewright.sandbox.child import Child

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
        self._child: Child | None = None

    def start(self) -> None:
        """Have it ready to answer; `InternalError` if it does not start."""
        if self._child is not None and not self._child.has_message(0):  # else: that of its end
            return
        self.close()
        environment = {**without_secrets(os.environ), **self._environment}
        self._child = Child(self._module, environment=environment, output=DEVNULL)
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
        if (child := self._child) is not None:
            child.signal_end()

    def close(self) -> None:
        """End the process and all it started. Idempotent."""
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
