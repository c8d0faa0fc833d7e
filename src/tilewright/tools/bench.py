"""The data and functions that the tools use: the kernels of a run, building a kernel, and
evaluating one.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Protocol

from tilewright.core.compiled_code import CompiledCode
from tilewright.core.records import Failed, TargetBrief, Trial, Workload
from tilewright.tools.records import Fact


class Bench(Protocol):
    """The work on one kernel by a person, a model or an agent."""

    @property
    def target(self) -> TargetBrief:
        """The brief of the target."""
        ...

    @property
    def workload(self) -> Workload:
        """The workload, with its arrays."""
        ...

    @property
    def versions(self) -> Sequence[Fact]:
        """The versions of the tools that build and time kernels on this machine."""
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
        """The fastest correct kernel that is known; None before a kernel is measured."""
        ...

    @property
    def left(self) -> int | None:
        """The number of evaluations that are left; None if there is no limit."""
        ...

    @property
    def drafts(self) -> MutableMapping[str, str]:
        """The sources of kernels that were built or rewritten but not evaluated, by their ids."""
        ...

    def find(self, candidate_id: str) -> Trial | None:
        """The kernel with this id, or the only kernel whose id begins with this text."""
        ...

    def children(self, candidate_id: str) -> Sequence[Trial]:
        """The kernels made from this one, oldest first."""
        ...

    def check(self, source: str) -> Failed | None:
        """The failure of a kernel's build, or the rule that it breaks when it runs, if the target
        can find that out without comparing results; None for neither."""
        ...

    def code(self, source: str) -> CompiledCode | Failed | None:
        """The machine code of a kernel, or the failure of its build.

        None if the target does not show machine code. Raises `ToolchainMissingError` if the
        disassembler is missing.
        """
        ...

    def evaluate(self, source: str, parent_id: str, note: str) -> tuple[Trial, bool]:
        """The trial of a kernel, and whether it had been evaluated before.

        Raises `InputError` if no further evaluation is possible.
        """
        ...
