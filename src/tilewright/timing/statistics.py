"""Robust estimates from paired samples. All are deterministic for a given seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_RESAMPLES = 2000


def log_ratios(baseline_s: Sequence[float], candidate_s: Sequence[float]) -> NDArray[np.float64]:
    """ln(baseline / candidate) of each pair, which is positive if the candidate was faster."""
    baseline, candidate = np.asarray(baseline_s, float), np.asarray(candidate_s, float)
    ratios: NDArray[np.float64] = np.log(baseline) - np.log(candidate)
    return ratios


def median_interval(
    values: NDArray[np.float64], confidence: float, seed: int
) -> tuple[float, float]:
    """A percentile-bootstrap interval of the median of `values`, shape (n,)."""
    return mean_of_medians_interval([values], confidence, seed)


def mean_of_medians_interval(
    groups: Sequence[NDArray[np.float64]], confidence: float, seed: int
) -> tuple[float, float]:
    """A percentile-bootstrap interval of the mean over groups, shape (n,) each, of their medians.

    Values are resampled only within their group.
    """
    draw = np.random.default_rng(seed)
    medians = [
        np.median(g[draw.integers(0, len(g), size=(_RESAMPLES, len(g)))], axis=1) for g in groups
    ]
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.mean(medians, axis=0), [tail, 1 - tail])
    return float(low), float(high)


def relative_drift(samples_s: Sequence[float]) -> float:
    """Change from the first to the last sample on the Theil-Sen line, over the median.

    The slope is the median of the slopes between all pairs of samples, which single outliers
    do not move. Source: Sen, "Estimates of the regression coefficient based on Kendall's tau",
    J. Am. Stat. Assoc. 63 (1968).
    """
    values = np.asarray(samples_s, float)
    first, second = np.triu_indices(len(values), k=1)
    slopes = (values[second] - values[first]) / (second - first)
    return float(np.median(slopes) * (len(values) - 1) / np.median(values))


def relative_spread(samples_s: Sequence[float]) -> float:
    """Half the interquartile range divided by the median, which is robust against outliers."""
    low, middle, high = np.quantile(np.asarray(samples_s, float), [0.25, 0.5, 0.75])
    return float((high - low) / 2 / middle)
