"""One session: a baseline and a candidate timed alternately, with every raw sample kept."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tilewright.core.errors import InternalError
from tilewright.timing.plan import CacheState, TimingPlan

Variant = Literal["baseline", "candidate"]

TimeCall = Callable[[Variant, bool], float]
"""Runs one call of a variant and returns its duration in seconds, read from a clock out of the
kernel's reach. The flag says whether the outputs of this very call must be checked; the target
draws fresh values and addresses for every call and raises if a check fails."""


@dataclass(frozen=True, slots=True)
class Session:
    """The raw samples of one session, in seconds; sample i of both variants is pair i.

    `candidate_first[i]` tells the order within pair i, `checked[i]` whether the outputs of
    pair i's timed calls were checked.
    """

    baseline_s: tuple[float, ...]
    candidate_s: tuple[float, ...]
    candidate_first: tuple[bool, ...]
    checked: tuple[bool, ...]
    cache: CacheState


def measure_pairs(time_call: TimeCall, plan: TimingPlan, seed: int) -> Session:
    """Times `plan.pairs` pairs after `plan.warmups` calls of each variant.

    Each pair runs both variants back to back in a random order, so that slow changes of the
    machine (clock, temperature, neighbours) fall on both. A quarter of the pairs, drawn by
    `seed`, have their outputs checked: a kernel cannot know which. Raises what `time_call`
    raises, and `InternalError` for a duration that is no positive number.
    """
    draw = random.Random(seed)
    for _ in range(plan.warmups):
        for variant in _order(draw.random() < 0.5):
            time_call(variant, False)
    samples: dict[Variant, list[float]] = {"baseline": [], "candidate": []}
    candidate_first, checked = [], []
    for _ in range(plan.pairs):
        candidate_first.append(draw.random() < 0.5)
        checked.append(draw.random() < 0.25)
        for variant in _order(candidate_first[-1]):
            duration = time_call(variant, checked[-1])
            if not (math.isfinite(duration) and duration > 0):
                raise InternalError(
                    f"the timer returned {duration} s for the {variant}: it must be positive."
                )
            samples[variant].append(duration)
    return Session(
        baseline_s=tuple(samples["baseline"]),
        candidate_s=tuple(samples["candidate"]),
        candidate_first=tuple(candidate_first),
        checked=tuple(checked),
        cache=plan.cache,
    )


def _order(candidate_first: bool) -> tuple[Variant, Variant]:
    return ("candidate", "baseline") if candidate_first else ("baseline", "candidate")
