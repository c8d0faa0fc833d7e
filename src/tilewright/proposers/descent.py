"""Long plans: many steps in a row, each the best of a few that the static estimate compares.

Some schedules pay only when they are complete: larger tiles need their loads merged, the loads need
slots to run ahead, and only then is an operand in the array worth keeping. Stochastic greedy search
finds such a sequence for the price of some milliseconds per step, before anything is run.
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
        """The kernel after a step; None where it does not apply or changes nothing."""
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
    """The steps with others up to `most`, each the best of `sample` and with a lower estimate."""
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
    """Up to `sample` steps that apply, every technique as likely as any other."""
    places = {name: list(steps) for name, steps in moves.places(kernel).items()}
    found: list[tuple[float, S, K]] = []
    while len(found) < sample and (open_ones := [n for n, p in places.items() if p]):
        waiting = places[rng.choice(open_ones)]
        step = waiting.pop(rng.randrange(len(waiting)))
        after = moves.carried_out(kernel, step)
        if after is not None:
            found.append((moves.cost(after), step, after))
    return found
