"""Applies steps to a kernel, and estimates their effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.estimate.cost import CHAINED, estimate
from tilewright.proposers.nki.ir import Kernel, size_of
from tilewright.proposers.nki.planning.steps import Step, possible

LARGEST = 600
"""A kernel with more statements is not rewritten further."""
DOES_NOT_FIT = 1e15


def cost_of(kernel: Kernel, chained: float = CHAINED) -> float:
    """The estimate in ns; very large for a kernel that does not fit into the memories."""
    cost = estimate(kernel)
    return cost.weighted(chained) + (0.0 if cost.fits else DOES_NOT_FIT)


def carried_out(kernel: Kernel, step: Step) -> Kernel | None:
    """The kernel after a step; None if it does not apply or changes nothing."""
    try:
        after = step.apply(kernel)
    except NotApplicableError:
        return None
    return after if after != kernel else None


class Moves:
    """Implements the `Moves` role for steps of some techniques."""

    def __init__(self, techniques: Sequence[str], chained: float = CHAINED) -> None:
        self._techniques, self._chained = techniques, chained

    def places(self, kernel: Kernel) -> Mapping[str, list[Step]]:
        """All places; none in a kernel that is already large."""
        if size_of(kernel) > LARGEST:
            return {}
        return {name: possible(kernel, name) for name in self._techniques}

    def carried_out(self, kernel: Kernel, step: Step) -> Kernel | None:
        """The kernel after a step, or None."""
        return carried_out(kernel, step)

    def cost(self, kernel: Kernel) -> float:
        """The estimate in ns."""
        return cost_of(kernel, self._chained)
