"""How a kernel fails while it is read, traced or interpreted: in the words of the NKI compiler."""

from __future__ import annotations

import reprlib

from tilewright.core.records import FailureKind


class KernelError(Exception):
    """A kernel breaks a rule. Becomes a `Failed` record; never leaves the evaluation.

    `code` is the name in the NKI manual without its prefix `err_`, or one of our own; `line` is
    filled in by the evaluator where it is not known when the error is raised.
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


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 3, 60, 60


def shown(value: object) -> str:
    """A kernel's value in a message, in few words however large it is."""
    return _SHORT.repr(value)


def not_supported(what: str, line: int | None = None) -> KernelError:
    """Something of Python or NKI that may be right but that this interpreter lacks."""
    return KernelError("not_supported", f"{what} is not supported by this interpreter", line)
