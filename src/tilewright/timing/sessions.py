"""One session, in which a baseline and a candidate are timed alternately and all raw samples are
kept.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tilewright.core.errors import InternalError
from tilewright.timing.plan import CacheState, TimingPlan

CHECKED = 0.25
"""Minimum share of the timed calls, including warm-up calls, whose outputs are checked."""
NOTICEABLE = 1 / 3
"""A kernel that skips the work in this share of its timed calls must be detected."""
MISSED = 0.01
"""Probability with which such a kernel may remain undetected."""

Variant = Literal["baseline", "candidate"]

TimeCall = Callable[[Variant, float], float]
"""Runs one call of a variant and returns its duration in seconds, read from a clock out of the
kernel's reach. The number is the probability with which outputs of this very call are checked; the
target draws that, and fresh values and addresses, for every call and raises if a check fails."""


def share_checked(pairs: int) -> float:
    """The probability with which each call of a candidate is checked, for this number of pairs.

    A median of which half of the calls are skipped is not a time of the kernel; with fewer than a
    third it is at least the lower quartile of the honest times, inside the spread that is told
    with it.
    Calls are drawn one by one, so that no call tells a kernel anything about the next. One that
    skips s of n calls is then missed with the probability (1 - p) ** s, and

        p = 1 - MISSED ** (1 / s) with s = NOTICEABLE * n

    holds that at `MISSED` where it matters: p is 0.68 for 10 pairs, 0.48 for 20 and 0.28 for 40;
    who skips six of 10 is missed once in a thousand. From 49 pairs on, p = `CHECKED` is enough.
    """
    return max(CHECKED, 1 - math.pow(MISSED, 1 / math.ceil(NOTICEABLE * pairs)))


@dataclass(frozen=True, slots=True)
class Session:
    """The raw samples of one session, in seconds; sample i of both variants is pair i.

    `candidate_first[i]` tells the order within pair i.
    """

    baseline_s: tuple[float, ...]
    candidate_s: tuple[float, ...]
    candidate_first: tuple[bool, ...]
    cache: CacheState


def measure_pairs(time_call: TimeCall, plan: TimingPlan, seed: int) -> Session:
    """Time `plan.pairs` pairs after `plan.warmups` calls of each variant.

    In each pair, both variants are called directly after each other in a random order, so slow
    changes of the machine (clock, temperature, other programs) affect both. Raises the exceptions
    of `time_call`, and `InternalError` for a duration that is not a positive number.
    """
    draw, share = random.Random(seed), share_checked(plan.pairs)
    for _ in range(plan.warmups):
        for variant in _order(draw.random() < 0.5):
            time_call(variant, share)
    samples: dict[Variant, list[float]] = {"baseline": [], "candidate": []}
    candidate_first = []
    for _ in range(plan.pairs):
        candidate_first.append(draw.random() < 0.5)
        for variant in _order(candidate_first[-1]):
            duration = time_call(variant, share)
            if not (math.isfinite(duration) and duration > 0):
                raise InternalError(
                    f"the timer returned {duration} s for the {variant}: it must be positive."
                )
            samples[variant].append(duration)
    return Session(
        baseline_s=tuple(samples["baseline"]),
        candidate_s=tuple(samples["candidate"]),
        candidate_first=tuple(candidate_first),
        cache=plan.cache,
    )


def _order(candidate_first: bool) -> tuple[Variant, Variant]:
    return ("candidate", "baseline") if candidate_first else ("baseline", "candidate")
