"""Plans that apply a schedule of an earlier run, completely or in part."""

from __future__ import annotations

import itertools
import random

from tilewright.core.records import Brief, Plan, Schedule, Trial
from tilewright.proposers.rewriter.estimate.cost import Cost, estimate
from tilewright.proposers.rewriter.estimate.expectation import changes, described, gain
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.planner import completed
from tilewright.proposers.rewriter.planning.replay import replayed
from tilewright.proposers.rewriter.planning.steps import Step

MOST_COMPLETED = 4
"""Number of parts of a schedule, the longest ones, that are completed by the estimate."""


def plans_of_schedule(
    brief: Brief,
    parent: Trial,
    kernel: Kernel,
    machine: Machine,
    before: Cost,
    rng: random.Random,
    author: str,
) -> list[Plan]:
    """Plans for the start of a run: the nearest schedule as a whole, then the most promising parts.

    A part consists of the first plans of a schedule. It is used unchanged, or with steps that the
    estimate adds, because another size may need other steps from some plan on.
    """
    if not brief.schedules or brief.iteration > 1:
        return []
    found: list[list[tuple[Schedule, int, tuple[Step, ...], Cost]]] = []
    longer: list[tuple[Schedule, int, tuple[Step, ...], Cost]] = []
    menu = brief.target.menu_for(brief.workload)
    for schedule in brief.schedules:
        parts = list(replayed(schedule, kernel, machine))
        found.append([(schedule, n, steps, estimate(k, machine)) for n, steps, k in parts])
        for number, steps, after in parts[-MOST_COMPLETED:]:
            more, last = completed(steps, after, machine, menu, rng)
            longer.append((schedule, number, more, estimate(last, machine)))
    whole = [parts[-1] for parts in found if parts]
    most = sorted(itertools.chain(longer, *found), key=lambda part: part[3].total)[: len(found)]
    plans = []
    for schedule, number, steps, cost in {
        part[2]: part for part in (*whole[:1], *most, *whole[1:])
    }.values():
        text = "; then ".join(step.sentence for step in steps)
        plans.append(
            Plan(
                parent_id=parent.candidate.id,
                option=schedule.plans[number].option,
                text=f"As in {schedule.workload}: {text}.",
                proposer=author,
                parameters={"steps": "; ".join(map(str, steps))},
                expected=described(changes(before, cost)),
                expected_gain=gain(before, cost),
            )
        )
    return plans
