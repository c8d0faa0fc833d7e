"""Computes the table of a comparison: speedups, trials and seconds until a run is close to the
best, and variability.

The table depends only on the lines of `runs.jsonl`. For a speedup, both kernels were timed in the
same rounds after the search, so a single fast sample of the search has no influence.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Run = Mapping[str, Any]
NEAR = 0.95
NONE_YET = "no candidate was correct by then"
"""Why an arm has no kernel at a checkpoint, if it had no correct candidate by then."""


@dataclass(frozen=True, slots=True)
class Row:
    """One arm at one checkpoint, over some workloads.

    The checkpoint is a number of `trials`, or `after_s` seconds of the arm's search, after which
    the runs had made `trials` trials (median).

    `seeds` is the number of different seeds, and `fewest_seeds` the number of seeds of the workload
    with the fewest, because an interrupted comparison has not run all seeds for each workload.
    `workloads` is the number of workloads with a confirmed kernel of this arm, and `compared` the
    number of those that also have one of the baseline. `speedup`: geometric mean over these of the
    median over seeds of default's time at its last checkpoint over this arm's time; `low` and
    `high` the extremes of workloads. `against_reference`: the same against a library, over the
    workloads that have one. `reached` of `groups` runs came to within 95 % of the best throughput
    that any arm found for that workload and seed; of those, median `trials_to_near` and
    `seconds_to_near`. `variability`: mean over workloads of (max - min) / max of throughput over
    seeds. `seconds_per_trial` and `overhead` (share of wall time for predictions and replay) are
    medians over runs, with the whole budget. `lowest_load` and `highest_load` are the lowest and
    the highest load average of the machine at the ends of the runs. `kind` is "measured", or
    another word for times that were not measured, as in tests.
    """

    arm: str
    trials: int
    workloads: int
    compared: int
    seeds: int
    fewest_seeds: int
    speedup: float | None
    low: float | None
    high: float | None
    against_reference: float | None
    reached: int
    groups: int
    trials_to_near: float | None
    seconds_to_near: float | None
    variability: float | None
    seconds_per_trial: float
    overhead: float
    lowest_load: float
    highest_load: float
    kind: str
    after_s: float | None = None


def time_key(seconds: float) -> str:
    """The name of a checkpoint after so many seconds of a search."""
    return f"{seconds:g} s"


def _seconds(checkpoint: str) -> float | None:
    """The seconds of a checkpoint by time; None for a number of trials."""
    return float(checkpoint.removesuffix(" s")) if checkpoint.endswith(" s") else None


def _trials(run: Run, checkpoint: str) -> int:
    """The number of a run's trials by a checkpoint."""
    seconds = _seconds(checkpoint)
    if seconds is None:
        return int(checkpoint)
    return sum(elapsed_s <= seconds for elapsed_s, _ in run["curve"])


def _order(checkpoint: str) -> tuple[bool, float]:
    """Checkpoints by time come first."""
    seconds = _seconds(checkpoint)
    return (seconds is None, float(checkpoint) if seconds is None else seconds)


def latest(runs: Sequence[Run]) -> list[Run]:
    """The newest session of each group, with the arms that were confirmed in it."""
    sessions: dict[tuple[Any, ...], str] = {}
    for run in runs:
        sessions[run["workload"], run["seed"], run["threads"], run["target"]] = run["session"]
    return [
        run
        for run in runs
        if sessions[run["workload"], run["seed"], run["threads"], run["target"]] == run["session"]
    ]


def table(runs: Sequence[Run], baseline: str = "default") -> list[Row]:
    """One row for each arm and checkpoint, in the order of the runs."""
    runs = latest(runs)
    arms = list(dict.fromkeys(run["arm"] for run in runs))
    checkpoints = sorted({c for run in runs for c in run["confirmed"]}, key=_order)
    base = baseline if baseline in arms else (arms[0] if arms else baseline)
    return [
        _row(arm, checkpoint, runs, base)
        for arm in arms
        for checkpoint in checkpoints
        if any(run["arm"] == arm and checkpoint in run["confirmed"] for run in runs)
    ]


def speedups(
    runs: Sequence[Run], arm: str, checkpoint: int | str, baseline: str
) -> dict[str, float]:
    """For each workload, the median over seeds of the paired speedup over the baseline's final
    result.
    """
    finals = {
        run["session"]: _confirmed(run, last)
        for run in runs
        if run["arm"] == baseline
        and run["confirmed"]
        # An earlier checkpoint does not replace one whose kernel failed when it was measured again.
        and (last := max({**run["confirmed"], **run.get("unconfirmed", {})}, key=_order))
        in run["confirmed"]
    }
    return _by_workload(
        runs,
        arm,
        str(checkpoint),
        lambda run: finals.get(run["session"]),
    )


def _row(arm: str, checkpoint: str, runs: Sequence[Run], baseline: str) -> Row:
    mine = [run for run in runs if run["arm"] == arm and checkpoint in run["confirmed"]]
    against = speedups(runs, arm, checkpoint, baseline)
    library = _by_workload(
        runs,
        arm,
        checkpoint,
        lambda run: median(run["reference"]["samples"]) if run["reference"] else None,
    )
    near = [_to_near(run, runs, checkpoint) for run in mine]
    reached = [found for found in near if found is not None]
    return Row(
        arm=arm,
        trials=round(median(_trials(run, checkpoint) for run in mine)),
        workloads=len({run["workload"] for run in mine}),
        compared=len(against),
        seeds=len({run["seed"] for run in mine}),
        fewest_seeds=min(Counter(run["workload"] for run in mine).values(), default=0),
        speedup=_geomean(list(against.values())),
        low=min(against.values(), default=None),
        high=max(against.values(), default=None),
        against_reference=_geomean(list(library.values())),
        reached=len(reached),
        groups=len(mine),
        trials_to_near=median(t for t, _ in reached) if reached else None,
        seconds_to_near=median(s for _, s in reached) if reached else None,
        variability=_variability(mine, checkpoint),
        seconds_per_trial=median(run["ledger"]["wall_s"] / run["measured"] for run in mine),
        overhead=median(_overhead(run) for run in mine),
        lowest_load=min(run["load_average"] for run in mine),
        highest_load=max(run["load_average"] for run in mine),
        kind="; ".join(sorted({run.get("kind", "measured") for run in mine})),
        after_s=_seconds(checkpoint),
    )


def _by_workload(
    runs: Sequence[Run], arm: str, checkpoint: str, other: Callable[[Run], float | None]
) -> dict[str, float]:
    """For each workload the median over seeds of other(run) / the arm's confirmed seconds."""
    ratios: dict[str, list[float]] = {}
    for run in runs:
        if run["arm"] == arm and checkpoint in run["confirmed"]:
            theirs = other(run)
            if theirs is not None:
                ratio = theirs / _confirmed(run, checkpoint)
                ratios.setdefault(run["workload"], []).append(ratio)
    return {workload: median(values) for workload, values in ratios.items()}


def _to_near(run: Run, runs: Sequence[Run], checkpoint: str) -> tuple[int, float] | None:
    """Trials and seconds until 95 % of the group's best throughput, as the searches measured it."""
    best = min(
        (s for r in runs if r["session"] == run["session"] for _, s in r["curve"] if s is not None),
        default=math.inf,
    )
    curve = run["curve"][: _trials(run, checkpoint)]
    for count, (elapsed_s, seconds) in enumerate(curve, start=1):
        if seconds is not None and best / seconds >= NEAR:
            return count, elapsed_s
    return None


def _variability(runs: Sequence[Run], checkpoint: str) -> float | None:
    by_workload: dict[str, list[float]] = {}
    for run in runs:
        by_workload.setdefault(run["workload"], []).append(1 / _confirmed(run, checkpoint))
    spreads = [(max(v) - min(v)) / max(v) for v in by_workload.values() if len(v) > 1]
    return sum(spreads) / len(spreads) if spreads else None


def _overhead(run: Run) -> float:
    ledger = run["ledger"]
    return float((ledger["search_s"] + ledger["replay_s"]) / ledger["wall_s"])


def _confirmed(run: Run, checkpoint: str) -> float:
    return float(median(run["confirmed"][checkpoint]))


def _geomean(values: Sequence[float]) -> float | None:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None
