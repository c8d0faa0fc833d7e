"""Computes the table of an experiment's arms from its finished runs."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median

from tilewright.experiments.running import CellResult, Point

RESAMPLED = 2000
"""Number of resamples of a bootstrap interval."""
COVERED = 0.95
NEAR = 1.01
"""Ratio to the baseline's best latency up to which a run has reached this latency."""

Values = dict[str, list[float]]
"""For each workload, one number per seed."""


@dataclass(frozen=True, slots=True)
class Row:
    """One arm over all workloads and seeds.

    `speedup` is the geometric mean over workloads of the geometric means over seeds of the speedup
    over the starting kernel. `low` and `high` are the ends of its bootstrap interval (95 %, seeds
    are resampled within each workload), and `worst` is the lowest speedup of all runs. `ratio`,
    `ratio_low` and `ratio_high` are the same for the arm's speedup divided by the baseline's with
    the same workload and seed, over the `pairs` for which both exist. `spread` is the mean over
    workloads of (max - min) / max over seeds; None with one seed. `reached` is the number of the
    `pairs` in which the arm came within 1 % of the baseline's best latency, after `evaluations_to`
    evaluations (median). `evaluations`, `calls`, `usd` and `seconds` are means over runs, and
    `failed` is the number of runs whose starting kernel failed.
    """

    arm: str
    runs: int
    failed: int
    speedup: float | None
    low: float | None
    high: float | None
    worst: float | None
    pairs: int
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    spread: float | None
    reached: int
    evaluations_to: float | None
    evaluations: float
    calls: float
    usd: float
    seconds: float


def table(results: Sequence[CellResult], baseline: str) -> list[Row]:
    """One row for each arm, in the order of the results."""
    return [_row(arm, results, baseline) for arm in dict.fromkeys(r.arm for r in results)]


def _row(arm: str, results: Sequence[CellResult], baseline: str) -> Row:
    mine = [result for result in results if result.arm == arm]
    base = {(r.workload, r.seed): r for r in results if r.arm == baseline}
    speedups: Values = {}
    ratios: Values = {}
    near: list[int | None] = []
    for result in mine:
        if result.speedup is None:
            continue
        speedups.setdefault(result.workload, []).append(result.speedup)
        other = base.get((result.workload, result.seed))
        if other is not None and other.speedup is not None and other.best is not None:
            ratios.setdefault(result.workload, []).append(result.speedup / other.speedup)
            near.append(evaluations_to(result.points, NEAR * other.best))
    low, high = interval(speedups)
    ratio_low, ratio_high = interval(ratios)
    reached = [count for count in near if count is not None]
    several = [v for v in speedups.values() if len(v) > 1]
    return Row(
        arm=arm,
        runs=len(mine),
        failed=sum(result.speedup is None for result in mine),
        speedup=geomean(speedups),
        low=low,
        high=high,
        worst=min((v for found in speedups.values() for v in found), default=None),
        pairs=len(near),
        ratio=geomean(ratios),
        ratio_low=ratio_low,
        ratio_high=ratio_high,
        spread=mean((max(v) - min(v)) / max(v) for v in several) if several else None,
        reached=len(reached),
        evaluations_to=median(reached) if reached else None,
        evaluations=mean(r.evaluations for r in mine),
        calls=mean(r.calls for r in mine),
        usd=mean(r.usd for r in mine),
        seconds=mean(r.seconds for r in mine),
    )


def evaluations_to(points: Sequence[Point], latency: float) -> int | None:
    """Number of evaluations until the best latency so far is at most this latency; None if it never
    is.
    """
    return next((p.evaluations for p in points if p.best is not None and p.best <= latency), None)


def geomean(values: Values) -> float | None:
    """Geometric mean over workloads of the geometric means over seeds; None if there are no
    numbers.
    """
    if not values:
        return None
    return math.exp(mean(mean(map(math.log, found)) for found in values.values()))


def interval(values: Values) -> tuple[float | None, float | None]:
    """Bootstrap interval of `geomean`, in which seeds are resampled with replacement within each
    workload.

    The interval describes other seeds on the same workloads, not other workloads. None if no
    workload has two seeds.
    """
    if not any(len(found) > 1 for found in values.values()):
        return None, None
    rng = random.Random(0)
    drawn = sorted(
        geomean({name: rng.choices(found, k=len(found)) for name, found in values.items()}) or 0.0
        for _ in range(RESAMPLED)
    )
    edge = round((1 - COVERED) / 2 * RESAMPLED)
    return drawn[edge], drawn[-1 - edge]
