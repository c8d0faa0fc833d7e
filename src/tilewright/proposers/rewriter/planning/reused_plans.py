"""Plans that apply a schedule of an earlier run, completely or in part."""

from __future__ import annotations

import itertools
import random
from typing import TypeAlias

from tilewright.core.records import Brief, Plan, Schedule, Trial
from tilewright.proposers.rewriter.estimate.cost import Cost, estimate
from tilewright.proposers.rewriter.estimate.expectation import changes, described, gain
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.planner import completed
from tilewright.proposers.rewriter.planning.replay import replayed, with_other_tiles
from tilewright.proposers.rewriter.planning.steps import Step

MOST_COMPLETED = 4
"""Number of parts of a schedule, the longest ones, that are completed by the estimate."""
MOST_OTHER_TILES = 2
"""Number of plans with other numbers of tiles than a schedule."""
WITHIN = 1.05
"""Maximum estimate of such a plan, relative to the best estimate of a whole schedule."""

_Part: TypeAlias = tuple[Schedule, int, tuple[Step, ...], Cost]
"""A schedule, the number of the last plan that a kernel has of it, its steps and its estimate."""


def plans_of_schedule(
    brief: Brief,
    parent: Trial,
    kernel: Kernel,
    machine: Machine,
    before: Cost,
    rng: random.Random,
    author: str,
) -> list[Plan]:
    """Plans for the start of a run: the nearest schedule as a whole, the same with the numbers of
    tiles that this shape needs, then the most promising parts.

    A part consists of the first plans of a schedule. It is used unchanged, or with steps that the
    estimate adds, because another size may need other steps from some plan on.
    """
    if not brief.schedules or brief.iteration > 1:
        return []
    found: list[list[_Part]] = []
    longer: list[_Part] = []
    tiled: list[_Part] = []
    menu = brief.target.menu_for(brief.workload)
    for schedule in brief.schedules:
        parts = list(replayed(schedule, kernel, machine))
        found.append([(schedule, n, steps, estimate(k, machine)) for n, steps, k in parts])
        for number, steps, after in parts[-MOST_COMPLETED:]:
            more, last = completed(steps, after, machine, menu, rng)
            longer.append((schedule, number, more, estimate(last, machine)))
        for other in with_other_tiles(schedule):
            for number, steps, after in list(replayed(other, kernel, machine))[-1:]:
                tiled.append((schedule, number, steps, estimate(after, machine)))
    whole = [parts[-1] for parts in found if parts]
    most = sorted(itertools.chain(longer, *found), key=_time)[: len(found)]
    limit = WITHIN * min(map(_time, (*whole, *tiled)), default=0.0)
    distinct = {part[2]: part for part in sorted(tiled, key=_time) if _time(part) <= limit}
    for part in whole:
        distinct.pop(part[2], None)
    fitting = list(distinct.values())[:MOST_OTHER_TILES]
    plans = []
    for schedule, number, steps, cost in {
        part[2]: part for part in (*whole[:1], *fitting, *most, *whole[1:])
    }.values():
        text = "; then ".join(step.sentence for step in steps)
        plans.append(
            Plan(
                parent_id=parent.candidate.id,
                option=schedule.plans[number].option,
                text=f"As in {schedule.workload}: {text}.",
                proposer=author,
                parameters={"steps": "; ".join(map(str, steps)), "reused": schedule.workload},
                expected=described(changes(before, cost)),
                expected_gain=gain(before, cost),
            )
        )
    return plans


def _time(part: _Part) -> float:
    return part[3].total
