"""Long plans: many steps in a row, each the best of a few that the static estimate compares.

Some schedules pay only when they are complete: larger tiles need their loads merged, the loads need
slots to run ahead, and only then is an operand in the array worth keeping. Stochastic greedy search
finds such a sequence for the price of some milliseconds per step, before anything is run.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tilewright.proposers.rewriter.buffers import NotApplicable
from tilewright.proposers.rewriter.catalogue import Step, steps_for
from tilewright.proposers.rewriter.cost import estimate
from tilewright.proposers.rewriter.ir import Kernel, same_code
from tilewright.proposers.rewriter.machine import Machine

SAMPLE = 10
"""Steps compared before one is taken: the best of ten is among the best fifth nine times in ten."""
MISSES = 2
"""Samples without a step that lowers the estimate before the sequence is complete."""
LEAST_GAIN = 0.002
"""Part of the estimate that a step must save."""


def descended(
    steps: tuple[Step, ...],
    kernel: Kernel,
    machine: Machine,
    techniques: Sequence[str],
    rng: random.Random,
    most: int,
) -> tuple[tuple[Step, ...], Kernel]:
    """The steps with others up to `most`, each of which lowers the estimate."""
    current, misses = estimate(kernel, machine).total, 0
    while len(steps) < most and misses < MISSES:
        best: tuple[float, Step, Kernel] | None = None
        for step, after in _sampled(kernel, machine, techniques, rng):
            total = estimate(after, machine).total
            if best is None or total < best[0]:
                best = (total, step, after)
        if best is None or best[0] > current * (1 - LEAST_GAIN):
            misses += 1
            continue
        current, misses = best[0], 0
        steps, kernel = (*steps, best[1]), best[2]
    return steps, kernel


def _sampled(
    kernel: Kernel, machine: Machine, techniques: Sequence[str], rng: random.Random
) -> list[tuple[Step, Kernel]]:
    """Up to `SAMPLE` steps that apply, every technique as likely as any other."""
    places = {name: list(steps_for(kernel, machine, name)) for name in techniques}
    found: list[tuple[Step, Kernel]] = []
    while len(found) < SAMPLE and (open_ones := [n for n, p in places.items() if p]):
        name = rng.choice(open_ones)
        step = places[name].pop(rng.randrange(len(places[name])))
        try:
            after = step.apply(kernel, machine)
        except NotApplicable:
            continue
        if not same_code(after.body, kernel.body):
            found.append((step, after))
    return found
