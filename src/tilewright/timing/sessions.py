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
"""Runs one call of a variant and returns its duration in seconds, from a clock that the kernel
cannot change. The number is the probability with which the outputs of this call are checked. For
each call, the target draws whether it is checked, and new values and addresses. It raises an
exception if a check fails."""


def share_checked(pairs: int) -> float:
    """The probability with which each call of a candidate is checked, for this number of pairs.

    If a kernel skips its work in half of its calls, the median is not a time of the kernel. If it
    skips fewer than a third, the median is at least the lower quartile of the true times, which
    lies within the reported spread. Therefore, skipping a third or more must be detected.

    Each call is drawn independently, so that a kernel cannot predict whether the next one is
    checked. A kernel that skips s of n calls remains undetected with the probability
    (1 - p) ** s. This probability is `MISSED` for

        p = 1 - MISSED ** (1 / s) with s = NOTICEABLE * n

    For example, p is 0.68 for 10 pairs, 0.48 for 20 and 0.28 for 40. A kernel that skips six of 10
    calls remains undetected once in a thousand sessions. From 49 pairs on, p is `CHECKED`.
    """
    return max(CHECKED, 1 - math.pow(MISSED, 1 / math.ceil(NOTICEABLE * pairs)))


@dataclass(frozen=True, slots=True)
class Session:
    """The raw samples of one session, in seconds; sample i of both variants is pair i.

    `candidate_first[i]` is true if the candidate was called first in pair i.
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
