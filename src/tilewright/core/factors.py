"""Numbers in the steps that made a kernel, which are treated as free parameters of the kernel.

A template (`templates.py`) is a text in which its author left numbers open. A kernel that a
rewriter made by steps such as `retile i 4` needs no template: if the same steps are carried out
with another number, the result is another instance of the same structure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.core.records import Plan
from tilewright.core.templates import Parameter, Point, TriedPoint

TOTAL = "total"
"""The part of `Plan.estimated` that is the latency of the whole kernel."""


@dataclass(frozen=True, slots=True, eq=False)
class StepFactors:
    """The numbers in the steps that led to a kernel, and other values that can be tried.

    Attributes:
        parameters: the numbers, named after the steps that contain them, with all values that
            occur.
        plans: by point, the plan of each instance that can be made and has not been.
        tried: the kernel itself and the instances of its structure that were evaluated.
        estimated: for each of these points, the static estimate of the latency, in any unit.
    """

    parameters: tuple[Parameter, ...]
    plans: Mapping[Point, Plan]
    tried: tuple[TriedPoint, ...]
    estimated: Mapping[Point, float]

    def points(self) -> tuple[Point, ...]:
        """All points that were tried or that can be tried."""
        return tuple(self.estimated)

    def estimates(self) -> tuple[float, ...]:
        """The static estimate of the latency at each of the points."""
        return tuple(self.estimated.values())

    def counts(self) -> None:
        """Always None, because the numbers in the steps are close to those of the kernel."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedSchedules:
    """Plans of different schedules for one kernel, of which a few are chosen by their estimates.

    A point is the position of a plan. All plans have an estimate (`Plan.estimated`).
    """

    plans: tuple[Plan, ...]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The position is the only parameter."""
        return (Parameter("schedule", tuple(range(len(self.plans)))),)

    def points(self) -> tuple[Point, ...]:
        """The positions of all plans."""
        return tuple((position,) for position in range(len(self.plans)))

    def estimates(self) -> tuple[float, ...]:
        """The estimate of the latency of each plan's kernel."""
        return tuple(plan.estimated[TOTAL] for plan in self.plans)

    def counts(self) -> tuple[tuple[float, ...], ...]:
        """The share of the time for which each unit is busy, in the order of their names, of the
        kernel of each plan.
        """
        return tuple(
            tuple(
                plan.estimated[u] / plan.estimated[TOTAL]
                for u in sorted({*plan.estimated} - {TOTAL})
            )
            for plan in self.plans
        )
