"""Finished runs of a comparison as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True)
class Run:
    """One search. `seconds` per trial, None for a failure; `elapsed_s` of wall time at each."""

    workload: str
    arm: str
    seed: int
    trials: int
    flops: int
    seconds: list[float | None]
    elapsed_s: list[float]
    kind: str
    device: str
    failures: dict[str, int] = field(default_factory=dict)
    ledger: dict[str, float] = field(default_factory=dict)

    def best(self, trials: int | None = None) -> float:
        """The fastest of the first `trials` candidates (all by default); infinite if all failed."""
        timed = [s for s in self.seconds[:trials] if s is not None]
        return min(timed, default=math.inf)

    def reached(self, share: float = 0.95) -> int:
        """Position of the first trial whose throughput is `share` of the run's best."""
        limit = self.best() / share
        return next(n for n, s in enumerate(self.seconds) if s is not None and s <= limit)

    def summary(self) -> str:
        """The result in a few words."""
        if math.isinf(self.best()):
            return f"all {len(self.seconds)} candidates failed: {self.failures}"
        label = " (mock)" if self.kind == "mock" else ""
        return (
            f"{self.flops / self.best() / 1e9:.0f} GFLOP/s{label} after {len(self.seconds)} trials "
            f"in {self.elapsed_s[-1]:.1f} s, failed {sum(self.failures.values())}"
        )


def table(title: str, runs: list[Run], library: Mapping[str, float]) -> str:
    """One line an arm: speedups against the default arm's best, steps to get there, spread."""
    lines = [
        title,
        "speedup: geomean over workloads of (default's best with all trials / arm's best), medians",
        "over seeds; to 95 %: median trials and seconds until 95 % of the run's own best; spread:",
        "median over workloads of (max - min) / max throughput over seeds; library: arm / library",
        "",
        f"{'arm':<11} {'runs':>5} {'trials':>6} {'at 10 %':>8} {'at 100 %':>8} "
        f"{'to 95 %':>8} {'s':>7} {'spread':>7} {'library':>8} {'failed':>7} {'s/trial':>8}",
    ]
    for trials in sorted({run.trials for run in runs}):
        here = [run for run in runs if run.trials == trials and not math.isinf(run.best())]
        base = {
            workload: median(
                r.best() for r in here if r.arm == "default" and r.workload == workload
            )
            for workload in {r.workload for r in here if r.arm == "default"}
        }
        for arm in dict.fromkeys(run.arm for run in here):
            lines.append(_line(arm, [run for run in here if run.arm == arm], base, library, trials))
    return "\n".join([*lines, ""])


def _line(
    arm: str,
    runs: list[Run],
    base: Mapping[str, float],
    library: Mapping[str, float],
    trials: int,
) -> str:
    by_workload: dict[str, list[Run]] = {}
    for run in runs:
        by_workload.setdefault(run.workload, []).append(run)
    early, late, against, spreads = [], [], [], []
    for workload, group in by_workload.items():
        best = median(run.best() for run in group)
        if workload in base:
            early.append(base[workload] / median(run.best(max(trials // 10, 1)) for run in group))
            late.append(base[workload] / best)
        if workload in library:
            against.append(library[workload] / best)
        if len(group) > 1:
            fastest, slowest = (pick(run.best() for run in group) for pick in (min, max))
            spreads.append(1 - fastest / slowest)
    candidates = sum(len(run.seconds) for run in runs)
    failed = sum(s is None for run in runs for s in run.seconds)
    wall = sum(run.elapsed_s[-1] for run in runs)
    steps = [run.reached() for run in runs]
    return (
        f"{arm:<11} {len(runs):5d} {trials:6d} {_geomean(early):>8} {_geomean(late):>8} "
        f"{median(steps) + 1:8.0f} "
        f"{median(r.elapsed_s[n] for r, n in zip(runs, steps, strict=True)):7.1f} "
        f"{f'{median(spreads):.2f}' if spreads else '-':>7} {_geomean(against):>8} "
        f"{f'{failed / candidates:.0%}':>7} {wall / candidates:8.2f}"
    )


def _geomean(ratios: list[float]) -> str:
    """The geometric mean as text, "-" of nothing or where an arm had no result yet."""
    if not ratios or min(ratios) <= 0:
        return "-"
    return f"{math.exp(sum(math.log(r) for r in ratios) / len(ratios)):.3f}"
