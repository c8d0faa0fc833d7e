"""Exceptions that a kernel raises itself, or that Python's own containers and iterators raise.

Only these can be caught by `except`. A rule of NKI or of the machine that a kernel breaks is a
`KernelError` of another kind, which ends the kernel.
"""

from __future__ import annotations

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.classes import Class, Record

_BASES = {
    "Exception": "", "ArithmeticError": "Exception", "ZeroDivisionError": "ArithmeticError",
    "AssertionError": "Exception", "AttributeError": "Exception", "ImportError": "Exception",
    "ModuleNotFoundError": "ImportError", "LookupError": "Exception",
    "IndexError": "LookupError", "KeyError": "LookupError",
    "NameError": "Exception", "OSError": "Exception", "RuntimeError": "Exception",
    "NotImplementedError": "RuntimeError", "StopIteration": "Exception", "TypeError": "Exception",
    "ValueError": "Exception",
}  # fmt: skip


def _classes() -> dict[str, Class]:
    found: dict[str, Class] = {}
    for name, base in _BASES.items():
        found[name] = Class(name, "error", {}, {}, [found[base]] if base else [])
    return found


EXCEPTIONS = _classes()
"""Python's exceptions that kernels may raise and catch."""


class Raised(KernelError):
    """An exception that `except` can catch. `value` is the object of its class."""

    def __init__(self, value: Record, code: str, message: str, line: int | None = None) -> None:
        super().__init__(code, message, line)
        self.value = value

    def is_a(self, cls: Class) -> bool:
        """Whether `except cls` catches it."""
        return self.value.cls.inherits(cls)


def raised(name: str, code: str, message: str, line: int | None = None) -> Raised:
    """One of Python's exceptions, with this text."""
    return Raised(Record(EXCEPTIONS[name], {"args": (message,)}), code, message, line)


class Position:
    """Where a pass is before statements that may raise an exception, to carry on from there."""

    def __init__(self, run: Execution) -> None:
        self._run = run
        self._state = run.depth, run.scope, run.loop

    def restore(self) -> None:
        """Leave the calls and loops that the exception ended."""
        self._run.depth, self._run.scope, self._run.loop = self._state
