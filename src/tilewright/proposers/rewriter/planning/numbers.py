"""The numbers in steps of this rewriter: tiles, slots of buffers, unrolled iterations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.core.errors import InputError
from tilewright.proposers.rewriter.analysis.buffers import MAX_SLOTS, NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import labelled_loops
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.estimate.cost import estimate
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.parameters import all_tile_factors, all_unroll_factors
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.reading import read

SLOTS = (2, 3, 4, 6, MAX_SLOTS)
"""Maximum number of slots of buffers with results, because more than two have not been faster."""


class NumberedSteps:
    """Implements the `Numbered` role for one machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def read(self, source: str) -> Kernel | None:
        """A kernel, or None."""
        try:
            return read(source, self._machine)
        except InputError:
            return None

    def parse(self, text: str) -> Step:
        """A step from its text."""
        return Step.parse(text)

    def number(self, step: Step) -> tuple[str, int] | None:
        """The step without its number, and the number; None if it has none."""
        at = _place(step)
        if at is None:
            return None
        others = (*step.arguments[:at], *step.arguments[at + 1 :])
        return str(replace(step, arguments=others)), int(step.arguments[at])

    def renumbered(self, kernel: Kernel, step: Step) -> Iterator[Step]:
        """The step with each other number that may be possible in the kernel."""
        at = _place(step)
        if at is not None:
            for number in map(str, self._numbers(kernel, step)):
                if number != step.arguments[at]:
                    arguments = (*step.arguments[:at], number, *step.arguments[at + 1 :])
                    yield replace(step, arguments=arguments)

    def _numbers(self, kernel: Kernel, step: Step) -> list[int]:
        if step.technique in ("double-buffer", "pipeline"):
            return list(SLOTS)
        for label, loop, above in labelled_loops(kernel.body):
            if label == step.arguments[0] and step.technique in ("retile", "keep-operand"):
                return all_tile_factors(kernel, self._machine, loop, above)
            if label == step.arguments[0] and step.technique == "unroll":
                return all_unroll_factors(loop, above)
        return []

    def applied(self, kernel: Kernel, step: Step) -> Kernel | None:
        """The kernel after a step, or None."""
        try:
            return step.apply(kernel, self._machine)
        except NotApplicable:
            return None

    def printed(self, kernel: Kernel) -> str:
        """The kernel's text."""
        return emit(kernel)

    def cost(self, kernel: Kernel) -> float:
        """The estimate in cycles."""
        return estimate(kernel, self._machine).total

    def sentence(self, kernel: Kernel, step: Step) -> str:
        """A description of the step."""
        return step.sentence


def _place(step: Step) -> int | None:
    """The position of a step's number among its arguments."""
    return next((n for n, text in enumerate(step.arguments) if text.isdecimal()), None)
