"""Choose the instances of a template to evaluate next, at random or with a model of earlier
results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tilewright.core.templates import ParameterSpace, Point, TriedPoint
from tilewright.tuner.candidates import Floats, Integers
from tilewright.tuner.parameters.gaussian_process import GaussianProcess
from tilewright.tuner.parameters.lattice import Lattice

LEARNED = 240
"""Maximum number of measurements from which the model learns: the fastest and the latest ones."""
POOL = 1024
"""Number of random points that are predicted in addition to the neighbours of the fastest ones."""
NEAR = 2
"""Maximum number of steps to a neighbour of a fast point."""
FAST = 4
"""Number of points whose neighbours are always predicted."""
SURPRISE = 0.1
"""Logarithm of the usual error of an estimate, between kernels that differ in a few numbers."""
DRIFT = 0.02
"""Logarithm by which a point is assumed to be slower for each unit of its distance to the fastest
one, if the estimate shows no difference, because points of similar speed are close to one
another."""
_WRONG = 1.5
"""Assumed latency of a wrong instance relative to the slowest one, so that the model avoids it."""
_BEYOND = 1.1
"""Assumed latency of an instance whose measurement was stopped, relative to the bound that it
exceeds."""


class RandomParameters:
    """Points in random order, the baseline of every comparison."""

    def next_points(
        self, space: ParameterSpace, tried: Sequence[TriedPoint], count: int, seed: int
    ) -> list[Point]:
        """The next `count` random points that were not evaluated."""
        known = {found.point for found in tried}
        free = [point for point in space.points() if point not in known]
        order = np.random.default_rng(seed).permutation(len(free))[:count]
        return [free[row] for row in order]


class GuidedParameters:
    """Descent over the values of a template, guided by a model of the measurements.

    The first points use all values about equally often. Afterwards, a Gaussian process predicts the
    logarithms of the latencies of the neighbours of the fastest points and of random points, and
    the points with the largest expected improvement are evaluated next. To keep the points of one
    batch apart, each chosen point is assumed to be as slow as predicted before the next one is
    chosen. If latency estimates exist, the process predicts their error. The first points are then
    those with the lowest estimates.
    """

    def next_points(
        self, space: ParameterSpace, tried: Sequence[TriedPoint], count: int, seed: int
    ) -> list[Point]:
        """The `count` points with the largest expected improvement over the fastest one."""
        lattice, rng = _lattice(space), np.random.default_rng(seed)
        taken = lattice.rows_of([found.point for found in tried])
        free = np.setdiff1d(np.arange(len(lattice)), taken)
        if len(free) == 0:
            return []
        values = _values(tried)
        if lattice.estimates is not None and values is None:
            order = np.argsort(lattice.estimates[free], kind="stable")
            return [lattice.points[row] for row in free[order][:count]]
        spread = max(0, _spread(lattice) - len(tried)) if values is not None else count
        chosen = _balanced(lattice, taken, free, min(spread, count, len(free)), rng)
        if len(chosen) < count and values is not None:
            free = np.setdiff1d(free, chosen)
            chosen += _promising(lattice, taken, values, free, count - len(chosen), rng)
        return [lattice.points[row] for row in chosen]


@lru_cache(maxsize=8)
def _lattice(space: ParameterSpace) -> Lattice:
    return Lattice(space)


def _spread(lattice: Lattice) -> int:
    """The points of the initial design, a few more than there are parameters; none if there are
    estimates."""
    return 0 if lattice.estimates is not None else int(lattice.coordinates.shape[1]) + 3


def _values(tried: Sequence[TriedPoint]) -> Floats | None:
    """Logarithms of latencies, with guesses for missing ones; None before any is known."""
    known = [t.latency or t.bound for t in tried]
    measured = [value for value in known if value]
    if not measured:
        return None
    wrong = math.log(_WRONG * max(measured))
    return np.array(
        [
            wrong if not value else math.log(value * (1.0 if t.latency else _BEYOND))
            for t, value in zip(tried, known, strict=True)
        ]
    )


def _balanced(
    lattice: Lattice, taken: Integers, free: Integers, count: int, rng: np.random.Generator
) -> list[int]:
    """Points from a random pool that use every value of every parameter about equally often.

    Points as far apart as possible would be in the corners, that is at extreme values, few of which
    are fast.
    """
    values = lattice.places.max(axis=0) + 1
    offset = np.concatenate([[0], np.cumsum(values)[:-1]])  # of a parameter, among all values
    used = np.bincount((lattice.places[taken] + offset).ravel(), minlength=int(values.sum()))
    chosen: list[int] = []
    pool = rng.permutation(free)[:POOL]
    while len(chosen) < count and len(pool):
        share = used[lattice.places[pool] + offset] * values  # 1 if it is used once in each turn
        at = int(np.argmin(share.sum(axis=1)))
        chosen.append(int(pool[at]))
        used[lattice.places[pool[at]] + offset] += 1
        pool = np.delete(pool, at)
    return chosen


def _promising(
    lattice: Lattice,
    taken: Integers,
    values: Floats,
    free: Integers,
    count: int,
    rng: np.random.Generator,
) -> list[int]:
    """Points with the largest expected improvement; each is assumed to be as predicted before the
    next."""
    order = np.argsort(values, kind="stable")
    recent = np.arange(len(values))[-LEARNED // 2 :]
    kept = np.unique(np.concatenate([order[: LEARNED - len(recent)], recent]))
    rows, known = lattice.coordinates[taken[kept]], values[kept]
    near = [free[lattice.hops(int(taken[n]), free) <= NEAR] for n in order[:FAST]]
    pool = np.unique(np.concatenate([*near, rng.permutation(free)[:POOL]]))
    best, chosen = float(values.min()), list[int]()
    expected = _expected(lattice, int(taken[order[0]]))
    scale = None if lattice.estimates is None else SURPRISE
    model = GaussianProcess(rows, known - expected[taken[kept]], scale)
    while len(chosen) < count and len(pool):
        error, deviation = model.predict(lattice.coordinates[pool])
        mean = error + expected[pool]
        gain = _improvement(best, mean, deviation)
        at = int(np.lexsort((mean, -gain))[0])  # by the mean if no improvement is expected
        chosen.append(int(pool[at]))
        model = model.with_guess(lattice.coordinates[pool[at]], float(error[at]))
        pool = np.delete(pool, at)
    return chosen


def _expected(lattice: Lattice, fastest: int) -> Floats:
    """The logarithms of latencies that are known without measurements, (n,)."""
    if lattice.estimates is None:
        return np.zeros(len(lattice))
    if lattice.counts is not None:
        return lattice.estimates
    away = np.abs(lattice.coordinates - lattice.coordinates[fastest]).sum(axis=1)
    return np.asarray(lattice.estimates + DRIFT * away)


def _improvement(best: float, mean: Floats, deviation: Floats) -> Floats:
    """Expected amount by which each point is below the best (Jones and others, 1998)."""
    z = (best - mean) / deviation
    density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    below = 0.5 * (1 + np.array([math.erf(v / math.sqrt(2)) for v in z]))
    return np.asarray((best - mean) * below + deviation * density)
