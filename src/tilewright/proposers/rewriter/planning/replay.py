"""Applies the schedule of an earlier run to another kernel of the same kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.core.records import Schedule
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.ir import Kernel, same_kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step

TILES = ("retile", "keep-operand")
"""The techniques whose number is a number of tiles."""
SCALES = (4.0, 2.0, 0.5, 0.25)
"""Numbers of tiles that are tried in another shape, relative to the recorded number."""


def replayed(
    schedule: Schedule, kernel: Kernel, machine: Machine
) -> Iterator[tuple[int, tuple[Step, ...], Kernel]]:
    """For each plan of the schedule: its number, all steps so far, and the resulting kernel.

    Steps use the kernel's names of buffers and loops, so they also apply to another size of the
    same kernel. A step that is not possible is tried with smaller factors and otherwise left out.
    """
    steps: tuple[Step, ...] = ()
    for number, plan in enumerate(schedule.plans):
        before = len(steps)
        for text in plan.steps:
            for step in _no_larger(Step.parse(text)):
                try:
                    after = step.apply(kernel, machine)
                except NotApplicable:
                    continue
                if not same_kernel(after, kernel):
                    steps, kernel = (*steps, step), after
                break
        if len(steps) > before:
            yield number, steps, kernel


def _no_larger(step: Step) -> Iterator[Step]:
    """The step, followed by the same step with smaller factors down to 2."""
    yield step
    for place, argument in enumerate(step.arguments):
        if argument.isdecimal():
            for factor in range(int(argument) - 1, 1, -1):
                arguments = (*step.arguments[:place], str(factor), *step.arguments[place + 1 :])
                yield Step(step.technique, arguments)


def with_other_tiles(schedule: Schedule) -> Iterator[Schedule]:
    """The schedule with more or fewer tiles in one of its steps.

    The numbers of a schedule fit the sizes for which it was found. If another shape has half the
    columns, for example, tiles of twice as many rows fit into the same memory:

        keep-operand i 2; retile j 4     ->     keep-operand i 4; retile j 4
    """
    for number, plan in enumerate(schedule.plans):
        for place, text in enumerate(plan.steps):
            for other in _scaled(Step.parse(text)):
                steps = [*plan.steps[:place], *other, *plan.steps[place + 1 :]]
                changed = replace(plan, parameters={**plan.parameters, "steps": "; ".join(steps)})
                plans = (*schedule.plans[:number], changed, *schedule.plans[number + 1 :])
                yield replace(schedule, plans=plans)


def _scaled(step: Step) -> Iterator[tuple[str, ...]]:
    """The step with each other number of tiles; nothing instead of a step with a single tile."""
    words = (step.technique, *step.arguments)
    if not step.arguments or not step.arguments[-1].isdecimal() or not {*TILES} & {*words}:
        return
    for scale in SCALES:
        tiles = int(scale * int(step.arguments[-1]))
        if tiles > 1:
            yield (str(replace(step, arguments=(*step.arguments[:-1], str(tiles)))),)
        elif tiles == 1:
            yield ()
