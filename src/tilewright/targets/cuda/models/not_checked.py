"""Reasons why an answer is not checked, or is not an answer."""

from __future__ import annotations

from tilewright.core.records import Failed
from tilewright.parts.languages import PYTHON


class NotReadError(Exception):
    """The part of an answer that is not understood, and its line. The answer may be correct."""

    def __init__(self, reason: str, line: int | None) -> None:
        super().__init__(reason)
        self.line = line

    @property
    def failed(self) -> Failed:
        """The failure as an outcome of the check."""
        log = f"not checked: {self}; only PyTorch on a GPU can show whether it is correct."
        return Failed("check", "not_checked", PYTHON.located(log, self.line), self.line)


class WrongError(Exception):
    """The reason why a text is not an answer, and its line."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line

    @property
    def failed(self) -> Failed:
        """The failure as an outcome of the build."""
        log = PYTHON.located(f"{self}.", self.line)
        return Failed("build", "compile_error", log, self.line)
