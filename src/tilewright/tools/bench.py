"""What tools work on: the kernels of a run, a way to build one, and a way to evaluate one."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Protocol

from tilewright.core.compiled_code import CompiledCode
from tilewright.core.records import Failed, TargetBrief, Trial, Workload
from tilewright.tools.records import Fact


class Bench(Protocol):
    """One piece of work on one kernel, whoever does it."""

    @property
    def target(self) -> TargetBrief:
        """The machine, as proposers may know it."""
        ...

    @property
    def workload(self) -> Workload:
        """What the kernels compute, over which arrays."""
        ...

    @property
    def versions(self) -> Sequence[Fact]:
        """By what kernels are built and timed here."""
        ...

    @property
    def start(self) -> Trial:
        """The starting kernel of the run."""
        ...

    @property
    def parent(self) -> Trial:
        """The kernel that the work begins with."""
        ...

    @property
    def best(self) -> Trial | None:
        """The fastest correct kernel that is known here; None before one is measured."""
        ...

    @property
    def left(self) -> int | None:
        """How many evaluations may still be spent; None for any number."""
        ...

    @property
    def drafts(self) -> MutableMapping[str, str]:
        """Kernels that were built or rewritten here but not evaluated: sources by their ids."""
        ...

    def find(self, candidate_id: str) -> Trial | None:
        """The kernel with this id, or the only one whose id begins so."""
        ...

    def children(self, candidate_id: str) -> Sequence[Trial]:
        """The kernels made from this one, oldest first."""
        ...

    def check(self, source: str) -> Failed | None:
        """Build a kernel and run nothing of it: why it does not build, or None."""
        ...

    def code(self, source: str) -> CompiledCode | Failed | None:
        """What the compiler makes of a kernel, or why it does not build.

        None where the target does not show machine code. `ToolchainMissingError` where what reads
        it is missing.
        """
        ...

    def evaluate(self, source: str, parent_id: str, note: str) -> tuple[Trial, bool]:
        """The trial of a kernel, and whether it was known before.

        `InputError` when it cannot be evaluated any more.
        """
        ...
