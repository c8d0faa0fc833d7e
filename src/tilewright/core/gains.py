"""Decides whether a kernel is faster than another one, or whether noise explains the difference."""

from __future__ import annotations


def is_gain(speedup: float | None, noise: float) -> bool:
    """Whether a speedup is larger than noise explains.

    `noise` is the sum of the noise of both measurements, as a share. False if the speedup is not
    known.
    """
    return speedup is not None and speedup > 1 + noise
