"""Applies the schedule of an earlier run to another kernel of the same kind."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.core.records import Schedule
from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.ir import Kernel
from tilewright.proposers.loops.planning.steps import Step


def replayed(schedule: Schedule, kernel: Kernel) -> list[tuple[Step, Kernel]]:
    """The applicable steps of the schedule, each with the kernel that it changes.

    Steps name loops by their position, so they also apply to another size of the same kernel. A
    step that is not possible is tried with smaller factors and otherwise left out.
    """
    done: list[tuple[Step, Kernel]] = []
    for plan in schedule.plans:
        for text in plan.steps:
            for step in _steps(text):
                try:
                    after = step.apply(kernel)
                except NotApplicableError:
                    continue
                done.append((step, kernel))
                kernel = after
                break
    return done


def _steps(text: str) -> Iterator[Step]:
    """The step and those with smaller factors; none if the technique is unknown in this version."""
    try:
        yield from Step.parse(text).no_larger()
    except ValueError:
        return
