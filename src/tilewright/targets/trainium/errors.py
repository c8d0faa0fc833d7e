"""Failures of a kernel while it is read, traced or interpreted, in the terms of the NKI
compiler."""

from __future__ import annotations

import reprlib

from tilewright.core.records import FailureKind


class KernelError(Exception):
    """A kernel breaks a rule. The error becomes a `Failed` record and is never raised out of the
    evaluation.

    `code` is the name in the NKI manual without its prefix `err_`, or one of tilewright. The
    evaluator sets `line` if it is not known when the error is raised.
    """

    def __init__(
        self,
        code: str,
        message: str,
        line: int | None = None,
        kind: FailureKind = "compile_error",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.line = line
        self.kind = kind

    def __str__(self) -> str:
        where = f"kernel.py:{self.line}: " if self.line else ""
        return f"{where}err_{self.code}: {self.message}"


class _Short(reprlib.Repr):
    """Shortened values without places in memory, which differ in every process."""

    def repr_instance(self, x: object, level: int) -> str:
        text = super().repr_instance(x, level)
        return f"a value of type {type(x).__name__}" if " at 0x" in text else text


_SHORT = _Short()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 3, 60, 60


def shown(value: object) -> str:
    """A kernel's value in a message, shortened if it is large."""
    return _SHORT.repr(value)


def not_supported(what: str, line: int | None = None) -> KernelError:
    """The error for a construct of Python or NKI that may be correct but that this interpreter does
    not support."""
    return KernelError("not_supported", f"{what} is not supported by this interpreter", line)


def too_large(what: str, line: int | None = None) -> KernelError:
    """The error for a value that would take too much time or memory."""
    return KernelError("too_large", f"{what} exceeds the limit of this interpreter", line)
