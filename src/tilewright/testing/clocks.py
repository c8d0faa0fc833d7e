"""Clocks that return artificial durations with known ratios and known noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.timing import TimeCall, Variant


@dataclass(frozen=True)
class Noise:
    """Relative noise of each call.

    `spread`: standard deviation of a log-normal; `spikes`: fraction of calls that take 30 %
    longer (interrupts); `wander`: standard deviation of each step of a random walk that both
    variants share (clock, temperature); `drift`: relative change over 100 calls.
    """

    spread: float = 0.02
    spikes: float = 0.0
    wander: float = 0.0
    drift: float = 0.0


def synthetic_clock(ratio: float, noise: Noise, seed: int) -> TimeCall:
    """Simulates a baseline of 1 ms and a candidate that takes 1 ms / `ratio`."""
    draw = np.random.default_rng(seed)
    level, calls = 0.0, 0

    def time_call(variant: Variant, checked: float) -> float:
        nonlocal level, calls
        calls += 1
        level += draw.normal(0, noise.wander)
        true_s = 1e-3 if variant == "baseline" else 1e-3 / ratio
        spike = 1.3 if draw.random() < noise.spikes else 1.0
        trend = 1 + noise.drift * calls / 100
        return float(true_s * trend * spike * np.exp(level + draw.normal(0, noise.spread)))

    return time_call
