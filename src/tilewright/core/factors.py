"""Numbers in the steps that made a kernel, as free parameters of that kernel.

A template (`templates.py`) is a text in which its author left numbers open. A kernel that a
rewriter made by steps such as `retile i 4` needs no such text: carried out again with another
number, the same steps give an instance of the same structure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.core.records import Plan
from tilewright.core.templates import Parameter, Point, TriedPoint


@dataclass(frozen=True, slots=True, eq=False)
class StepFactors:
    """The numbers in the steps that led to a kernel, and other values that can be tried.

    Attributes:
        parameters: the numbers, by the steps that they stand in, with all values that occur.
        plans: by point, the plan of each instance that can be made and has not been.
        tried: the kernel itself and the instances of its structure that were evaluated.
        estimated: of all these points, the static estimate of the latency, in any unit.
    """

    parameters: tuple[Parameter, ...]
    plans: Mapping[Point, Plan]
    tried: tuple[TriedPoint, ...]
    estimated: Mapping[Point, float]

    def points(self) -> tuple[Point, ...]:
        """All points that were tried or can be."""
        return tuple(self.estimated)

    def estimates(self) -> tuple[float, ...]:
        """The static estimate at each of them."""
        return tuple(self.estimated.values())
