"""Notes of a compiler on kernels, which are made only if a prompt or a report shows them."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock

from tilewright.core.compiled_code import CompiledCode
from tilewright.core.errors import TilewrightError
from tilewright.core.records import Measured
from tilewright.evaluation.building import Builds


class CodeNotes:
    """The notes on kernels' machine code; every kernel is built once. Thread-safe."""

    def __init__(self, builds: Builds) -> None:
        self._builds = builds
        self._known: dict[str, tuple[str, ...]] = {}
        self._lock = Lock()

    def of(self, source: str) -> tuple[str, ...]:
        """The notes on a kernel; empty if its machine code cannot be shown, which is not an
        error.
        """
        with self._lock:
            if source not in self._known:
                self._known[source] = self._read(source)
            return self._known[source]

    def _read(self, source: str) -> tuple[str, ...]:
        try:
            code = self._builds.code(source)
        except TilewrightError:
            return ()
        return code.notes if isinstance(code, CompiledCode) else ()


def with_notes(outcome: Measured, notes: tuple[str, ...]) -> Measured:
    """The outcome with these lines at the end of its feedback."""
    return replace(outcome, feedback="\n".join(filter(None, (outcome.feedback, *notes))))
