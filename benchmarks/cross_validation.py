"""Fits the model's [fit] parameters to half of the RTL programs, and tests them on the others.

Each split starts with the fitted parameters changed at random, by up to three steps each. It then
improves one parameter at a time.

python benchmarks/fidelity.py --cv
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

STEPS: Mapping[str, int] = {
    "array_output_delay": 1,
    "array_drain_cycles": 1,
    "dma_write_latency": 1,
    "dma_read_latency": 1,
    "l2_hit_latency": 1,
    "l2_permission_latency": 1,
    "l2_release_latency": 10,
    "l2_release_cycles": 1,
    "l2_store_miss_cycles": 1,
    "dram_latency": 1,
    "cpu_l1_refill": 4,
    "cpu_fetch_refill": 4,
}
"""The parameters that target.toml marks [fit] and that the programs exercise, with the steps in
which they are searched. The others are read from the RTL."""

SPLITS = 5
FIT_EVALUATIONS = 150

Item = TypeVar("Item")
Errors = Callable[[Mapping[str, int], Sequence[Item]], list[float]]


@dataclass(frozen=True, slots=True)
class Split:
    """Errors of one split: signed, relative to RTL."""

    fitted: Mapping[str, int]
    on_fitted_half: list[float]
    on_other_half: list[float]


def cross_validate(
    parameters: Mapping[str, int], items: Sequence[Item], errors: Errors[Item], processes: int
) -> list[Split]:
    """One `Split` for each of `SPLITS` random halves. `errors` must be a module's function."""
    with ProcessPoolExecutor(processes) as pool:
        futures = [
            pool.submit(_split, seed, dict(parameters), list(items), errors)
            for seed in range(SPLITS)
        ]
        return [future.result() for future in futures]


def _split(
    seed: int, parameters: Mapping[str, int], items: Sequence[Item], errors: Errors[Item]
) -> Split:
    rng = random.Random(seed)
    shuffled = rng.sample(items, len(items))
    half = len(items) // 2
    start = {k: max(1, parameters[k] + rng.randint(-3, 3) * step) for k, step in STEPS.items()}
    fitted = fit({**parameters, **start}, shuffled[:half], errors)
    changed = {name: fitted[name] for name in STEPS}
    return Split(changed, errors(fitted, shuffled[:half]), errors(fitted, shuffled[half:]))


def fit(
    parameters: Mapping[str, int], items: Sequence[Item], errors: Errors[Item]
) -> Mapping[str, int]:
    """Coordinate descent on the mean squared error, in whole steps, at most `FIT_EVALUATIONS`."""

    def loss(candidate: Mapping[str, int]) -> float:
        found = errors(candidate, items)
        return sum(e * e for e in found) / len(found)

    best, best_loss = dict(parameters), loss(parameters)
    evaluations = 1
    improved = True
    while improved and evaluations < FIT_EVALUATIONS:
        improved = False
        for name, step in STEPS.items():
            for direction in (step, -step):
                candidate = {**best, name: best[name] + direction}
                while candidate[name] >= 1 and evaluations < FIT_EVALUATIONS:
                    evaluations += 1
                    candidate_loss = loss(candidate)
                    if candidate_loss >= best_loss:
                        break
                    best, best_loss, improved = candidate, candidate_loss, True
                    candidate = {**best, name: best[name] + direction}
    return best
