"""Applies the schedule of an earlier run to another kernel of the same kind."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.core.records import Schedule
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.ir import Kernel, same_kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step


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
