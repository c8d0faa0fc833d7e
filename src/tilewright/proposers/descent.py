"""Makes long plans greedily: each step is the best of a few random steps according to the static
estimate.

Some schedules are faster only when they are complete. For example, larger tiles need merged loads,
the loads need slots so that they can be issued ahead, and only then is it useful to keep an operand
in the array. Stochastic greedy search finds such sequences in some milliseconds per step, before
any kernel is run.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Protocol, TypeVar

MISSES = 2
"""A sequence is complete after this number of samples without a step that lowers the estimate."""
LEAST_GAIN = 0.002
"""Minimum share of the estimate that a step must save."""

K = TypeVar("K")
S = TypeVar("S")


class Moves(Protocol[K, S]):
    """The steps `S` that a rewriter can apply to its kernels `K`, and their estimates."""

    def places(self, kernel: K) -> Mapping[str, list[S]]:
        """Steps that may apply, by technique."""
        ...

    def carried_out(self, kernel: K, step: S) -> K | None:
        """The kernel after a step; None if the step does not apply or changes nothing."""
        ...

    def cost(self, kernel: K) -> float:
        """The estimate, in any unit."""
        ...


def descended(
    moves: Moves[K, S],
    steps: tuple[S, ...],
    kernel: K,
    rng: random.Random,
    most: int,
    sample: int,
) -> tuple[tuple[S, ...], K]:
    """The given steps, followed by further steps up to `most` in total, each of which is the best
    of `sample` random steps and lowers the estimate.
    """
    current, misses = moves.cost(kernel), 0
    while len(steps) < most and misses < MISSES:
        found = _sampled(moves, kernel, rng, sample)
        best = min(found, key=lambda made: made[0], default=None)
        if best is None or best[0] > current * (1 - LEAST_GAIN):
            misses += 1
            continue
        current, misses = best[0], 0
        steps, kernel = (*steps, best[1]), best[2]
    return steps, kernel


def _sampled(
    moves: Moves[K, S], kernel: K, rng: random.Random, sample: int
) -> list[tuple[float, S, K]]:
    """Up to `sample` random steps that apply. All techniques are equally likely."""
    places = {name: list(steps) for name, steps in moves.places(kernel).items()}
    found: list[tuple[float, S, K]] = []
    while len(found) < sample and (open_ones := [n for n, p in places.items() if p]):
        waiting = places[rng.choice(open_ones)]
        step = waiting.pop(rng.randrange(len(waiting)))
        after = moves.carried_out(kernel, step)
        if after is not None:
            found.append((moves.cost(after), step, after))
    return found
