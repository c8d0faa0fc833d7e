"""Random sequences of steps for a search that has found nothing better for a while.

The changes of the best kernels with good estimates are soon all tried, and the estimate leads to
the same plans again. Then steps are taken at random, whatever their estimate is. Of the kernels at
the ends of several such sequences, those with the lowest estimates are measured.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence, Set

from tilewright.core.records import History, MenuOption, Trial
from tilewright.proposers.rewriter.estimate.cost import estimate
from tilewright.proposers.rewriter.ir import Kernel, same_kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.planner import POOL, Draft, shuffled
from tilewright.proposers.rewriter.planning.steps import Step

STALE = 4
"""Number of iterations without a better kernel before random sequences begin."""
LEAST_PROGRESS = 0.001
"""Minimum improvement that counts, as a share of the latency."""
FARTHEST = 4
"""Number of steps of the longest random sequence."""
TRIES = 4
"""Maximum number of random sequences for each one that is requested."""


def is_stale(parent: Trial, history: History, iteration: int) -> bool:
    """Whether no kernel of the latest iterations was better than all kernels before.

    If the parent belongs to the kernels that began again from the naive loop nest, only these are
    considered, otherwise only the others.
    """
    best, found, anew = math.inf, iteration, set[str]()
    for trial in history:
        plan = trial.candidate.plan
        if (plan is not None and plan.begins_anew) or trial.candidate.parent_id in anew:
            anew.add(trial.candidate.id)
    of_new = parent.candidate.id in anew
    for trial in history:
        is_of_line = (trial.candidate.id in anew) == of_new
        if is_of_line and trial.latency is not None and trial.latency < best * (1 - LEAST_PROGRESS):
            best, found = trial.latency, trial.iteration
    return iteration - found > STALE


def random_walk(
    kernel: Kernel,
    machine: Machine,
    menu: Sequence[MenuOption],
    tried: Set[str],
    count: int,
    rng: random.Random,
) -> list[Draft]:
    """Up to `count` drafts that begin with an option of the menu and are not in `tried`."""
    found: dict[str, Draft] = {}
    for _ in range(TRIES * count):
        if len(found) == POOL * count:
            break
        steps: tuple[Step, ...] = ()
        end = kernel
        for _ in range(rng.randint(1, FARTHEST)):
            taken = _random_step(end, machine, menu, rng)
            if taken is None:
                break
            steps, end = (*steps, taken[0]), taken[1]
        text = "; ".join(map(str, steps))
        if steps and text not in tried and not same_kernel(end, kernel):
            option = next(o for o in menu if o.technique == steps[0].technique)
            found.setdefault(text, Draft(option, steps, end, estimate(end, machine)))
    return sorted(found.values(), key=lambda d: d.cost.total)[:count]


def tried_from(parent: Trial, history: History) -> frozenset[str]:
    """The sequences of steps that this run has applied to a kernel."""
    plans = [t.candidate.plan for t in history if t.candidate.plan is not None]
    return frozenset(
        str(plan.parameters.get("steps", ""))
        for plan in plans
        if plan.parameters.get("base", plan.parent_id) == parent.candidate.id
    )


def _random_step(
    kernel: Kernel, machine: Machine, menu: Sequence[MenuOption], rng: random.Random
) -> tuple[Step, Kernel] | None:
    """A random technique at a random place that changes the kernel."""
    techniques = [o.technique for o in menu if o.technique]
    rng.shuffle(techniques)
    for technique in techniques:
        for found in shuffled(kernel, machine, technique, rng):
            return found
    return None
