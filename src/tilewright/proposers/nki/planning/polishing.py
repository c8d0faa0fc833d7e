"""Steps that lower the modelled latency, after the estimate has chosen a sequence.

The estimate ranks sequences well, but it does not distinguish small changes, such as which engine
makes a copy or how wide a strip is. The target's latency model does, but takes a hundred times as
long, so it is only asked about steps that the estimate does not reject.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from tilewright.proposers.nki.ir import Body, Kernel, Loop, Op, size_of
from tilewright.proposers.nki.planning.everywhere import Made, is_large, swept
from tilewright.proposers.nki.planning.masked_plans import MASKED
from tilewright.proposers.nki.planning.moves import Moves, cost_of
from tilewright.proposers.nki.planning.steps import Step

Latency: TypeAlias = Callable[[Kernel], float | None]
"""The modelled latency of a kernel in ns; None if the kernel cannot be modelled."""
MOST_INSTRUCTIONS = 330_000
"""Number of instructions of all kernels that are modelled for one plan. This limits the time
independently of the speed of the computer."""
_READING = 10
"""The time to read one statement, in instructions."""
_TOLERATED = 1.05
"""Estimates of steps that are modelled, relative to the estimate of the kernel."""
_FAR = 2.0
"""Estimates of complete sequences that are modelled, relative to the lowest estimate."""
_LEAST_GAIN = 0.001
"""Part of the latency that a step must save."""


def polished(made: Sequence[Made], techniques: Sequence[str], latency: Latency) -> Made | None:
    """The fastest of some kernels by their modelled latencies, with steps that lower its latency.

    Neither has steps that the check may refuse. None if no kernel can be modelled within the limit.
    """
    made = [one for one in made if all(step.technique != "narrow" for step in one[0])]
    techniques = [t for t in techniques if t not in ("narrow", MASKED)]
    modelled = _Modelled(latency)
    limit = _FAR * min((cost_of(kernel) for _, kernel in made), default=math.inf)
    near = [number for number, (_, kernel) in enumerate(made) if cost_of(kernel) <= limit]
    timed = [(modelled(made[number][1]), number) for number in near]
    least, number = min(timed, default=(math.inf, 0))
    if least == math.inf:
        return None
    steps, kernel = made[number]
    if is_large(kernel):
        more, kernel = swept(kernel, techniques, modelled, least)
        return (*steps, *more), kernel
    tried = set[str]()
    while (better := _better(kernel, least, techniques, tried, modelled)) is not None:
        least, step, kernel = better
        steps = (*steps, step)
    return steps, kernel


class _Modelled:
    """Latencies of kernels; infinite once too many instructions were modelled."""

    def __init__(self, latency: Latency) -> None:
        self._latency, self._left = latency, MOST_INSTRUCTIONS

    def __call__(self, kernel: Kernel) -> float:
        self._left -= executed(kernel.body) + _READING * size_of(kernel)
        found = self._latency(kernel) if self._left >= 0 else None
        return math.inf if found is None else found


def _better(
    kernel: Kernel, least: float, techniques: Sequence[str], tried: set[str], modelled: _Modelled
) -> tuple[float, Step, Kernel] | None:
    """The first step that lowers the latency. Steps that were tried once are not tried again."""
    for step, after in _promising(kernel, techniques, tried):
        tried.add(str(step))
        found = modelled(after)
        if found < least * (1 - _LEAST_GAIN):
            return found, step, after
    return None


def _promising(
    kernel: Kernel, techniques: Sequence[str], tried: set[str]
) -> Iterator[tuple[Step, Kernel]]:
    """Steps that the estimate does not reject, the lowest estimate first."""
    moves, limit = Moves(techniques), _TOLERATED * cost_of(kernel)
    found: list[tuple[float, Step, Kernel]] = []
    for steps in moves.places(kernel).values():
        for step in steps:
            after = None if str(step) in tried else moves.carried_out(kernel, step)
            if after is not None and (cost := moves.cost(after)) <= limit:
                found.append((cost, step, after))
    for _, step, after in sorted(found, key=lambda one: one[0]):
        yield step, after


def executed(body: Body) -> int:
    """The number of instructions that run, in all iterations of all loops."""
    total = 0
    for statement in body:
        if isinstance(statement, Loop):
            total += statement.trips * executed(statement.body)
        elif isinstance(statement, Op):
            total += 1
    return total
