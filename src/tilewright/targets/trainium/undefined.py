"""Finds the line that causes undefined elements of an output, in a separate run.

An instruction that writes undefined values (NaN) either read undefined values, or computed them
from defined ones, as infinity minus infinity. Undefined values that it read were written by an
earlier instruction, or were never written. Therefore, each tensor has one cause, which is that of
the last undefined values that were written to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core.records import Argument
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.tiles.buffer import Buffer
from tilewright.targets.trainium.tiles.dtypes import Values
from tilewright.targets.trainium.tiles.view import View

Cause = tuple[int, str]
"""A line, and what happened there."""


class Undefined:
    """The causes of undefined values in one run."""

    def __init__(self) -> None:
        self._causes: dict[Buffer, Cause] = {}
        self._read: Cause | None = None
        self._done = False

    def read(self, line: int, function: str, view: View, values: Values) -> None:
        """Called with the values of each operand, before the results of its instruction."""
        if self._done:
            self._read, self._done = None, False
        if self._read is None and _undefined(values):
            buffer = view.buffer
            name = f" {buffer.record.name}" if buffer.record.name else ""
            self._read = self._causes.get(buffer) or (
                line,
                f"{function} reads elements of the tensor{name} of line {buffer.record.line} that "
                "were never written or lie outside of a mask",
            )

    def written(self, line: int, function: str, view: View, values: Values) -> None:
        """Called with the values of each result."""
        self._done = True
        if _undefined(values):
            self._causes[view.buffer] = self._read or (
                line,
                f"{function} computes undefined values (NaN) from defined ones, such as infinity "
                "minus infinity or zero times infinity: a value is too large for its type, or "
                "outside of the domain of a function",
            )

    def explain(self, outputs: Sequence[View], arguments: Sequence[Argument]) -> None:
        """Raise `KernelError` for the first output with undefined elements."""
        for view, argument in zip(outputs, arguments, strict=True):
            values = view.values()
            if not _undefined(values):
                continue
            count = int(np.isnan(values).sum())
            cause = self._causes.get(view.buffer)
            line, text = cause or (view.buffer.record.line, "they were never stored")
            raise KernelError(
                "undefined_output",
                f"{count} of {values.size} elements of {argument.name} are undefined: {text}",
                line,
                "uninitialised_read",
            )


def _undefined(values: Values) -> bool:
    return values.dtype.kind == "f" and bool(np.isnan(values).any())
