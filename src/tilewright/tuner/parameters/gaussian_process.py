"""A cost model that learns from a few dozen measurements: a Gaussian process in numpy.

The boosted trees of the tile search need hundreds of samples before they rank well, but each sample
here is a kernel that must be built, checked and measured. The method is algorithm 2.1 of Rasmussen
and Williams, *Gaussian Processes for Machine Learning*, with a Matern kernel (5/2) that has a
length scale for each parameter.
"""

from __future__ import annotations

import math
from copy import copy

import numpy as np

from tilewright.tuner.candidates import Floats

_LENGTHS = np.array([0.15, 0.3, 0.6, 1.2, 2.4, 5.0])
_NOISES = (1e-4, 1e-2, 5e-2)
_ROUNDS = 2
_LIKELY_LENGTH = 1.0
"""The most likely length scale before any measurement, which is that of the whole axis. Its
logarithm has a normal distribution with deviation 1. Without this prior, a dozen measurements would
not determine eight length scales, and the most likely ones would show structure that does not
exist."""
_JITTER = 1e-9


class GaussianProcess:
    """Predicts a mean and a deviation for points of the unit cube from measured ones.

    Args:
        rows: (n, d) coordinates of the measured points.
        values: (n,) the measured values (logarithms of latencies).
        scale: the standard deviation of values; by default, that of the measured values.
    """

    def __init__(self, rows: Floats, values: Floats, scale: float | None = None) -> None:
        self._rows = rows
        self._mean = float(values.mean())
        self._scale = scale or float(values.std()) or 1.0
        self._values = (values - self._mean) / self._scale
        self._lengths, self._noise = self._fitted()
        self._factor, self._weights, _ = self._solved(self._lengths, self._noise)

    def predict(self, rows: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation at each of (m, d) points, in the units of the values."""
        between = _matern(rows, self._rows, self._lengths)
        solved = np.linalg.solve(self._factor, between.T)
        variance = np.maximum(1.0 - np.square(solved).sum(axis=0), _JITTER)
        mean = self._mean + self._scale * (between @ self._weights)
        return mean, self._scale * np.sqrt(variance)

    def with_guess(self, row: Floats, value: float) -> GaussianProcess:
        """The same model with one more point and unchanged parameters."""
        guessed = copy(self)
        guessed._rows = np.concatenate([self._rows, row[None, :]])
        guessed._values = np.append(self._values, (value - self._mean) / self._scale)
        guessed._factor, guessed._weights, _ = guessed._solved(self._lengths, self._noise)
        return guessed

    def _fitted(self) -> tuple[Floats, float]:
        """The most likely length scales and noise given the measurements, optimised one parameter
        at a time."""
        best, noise = np.full(self._rows.shape[1], 0.6), _NOISES[1]
        likelihood = self._likelihood(best, noise)
        for _ in range(_ROUNDS):
            for column in range(len(best)):
                for length in _LENGTHS:
                    tried = best.copy()
                    tried[column] = length
                    found = self._likelihood(tried, noise)
                    if found > likelihood:
                        best, likelihood = tried, found
            for other in _NOISES:
                found = self._likelihood(best, other)
                if found > likelihood:
                    noise, likelihood = other, found
        return best, noise

    def _likelihood(self, lengths: Floats, noise: float) -> float:
        """Logarithm of the posterior density of these parameters, up to a constant."""
        before = -0.5 * float(np.square(np.log(lengths / _LIKELY_LENGTH)).sum())
        return self._solved(lengths, noise)[2] + before

    def _solved(self, lengths: Floats, noise: float) -> tuple[Floats, Floats, float]:
        """Cholesky factor, weights and log likelihood with these parameters."""
        count = len(self._values)
        covariance = _matern(self._rows, self._rows, lengths)
        covariance[np.diag_indices(count)] += noise + _JITTER
        factor: Floats = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
        weights: Floats = np.linalg.solve(factor.T, np.linalg.solve(factor, self._values))
        fit = -0.5 * float(self._values @ weights) - float(np.log(np.diag(factor)).sum())
        return factor, weights, fit - 0.5 * count * math.log(2 * math.pi)


def _matern(left: Floats, right: Floats, lengths: Floats) -> Floats:
    """Matern covariance (5/2) of (n, d) with (m, d) points, which is 1 for equal points."""
    a, b = left / lengths, right / lengths
    square = np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1) - 2 * a @ b.T
    far = np.sqrt(5 * np.maximum(square, 0.0))
    return np.asarray((1 + far + far * far / 3) * np.exp(-far))
