"""Decides whether a kernel is faster than another one, or whether noise explains the difference."""

from __future__ import annotations

from tilewright.core.records import Measured, Trial


def is_gain(speedup: float | None, noise: float) -> bool:
    """Whether a speedup is larger than noise explains.

    `noise` is that of `noise_of_speedup`. False if the speedup is not known.
    """
    return speedup is not None and speedup > 1 + noise


def noise_of_speedup(*trials: Trial | None) -> float:
    """The sum of the noise of the measurements of which a speedup is the ratio, as a share; 0 if
    one of them is missing."""
    noises = [t.outcome.noise for t in trials if t and isinstance(t.outcome, Measured)]
    return sum(noises) if len(noises) == len(trials) else 0.0
