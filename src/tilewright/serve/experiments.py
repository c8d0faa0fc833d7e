"""Groups the runs of a project by workload and by settings, to compare ways of searching."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import TYPE_CHECKING

from tilewright.report.text import words

if TYPE_CHECKING:
    from tilewright.storage.overview_records import RunOverview

VARIED = frozenset({"seed", "input_seed"})
"""Settings in which the runs of one arm differ."""
LONGEST = 80
"""Number of characters of a setting's value that are shown."""


@dataclass(frozen=True, slots=True)
class Arm:
    """The runs of a workload whose settings differ only in the seed.

    `differing` are the settings in which the arms of this workload differ. Speedups are over the
    starting kernel, of the runs that have one: geometric mean, smallest and largest.
    """

    differing: tuple[tuple[str, str], ...]
    runs: tuple[RunOverview, ...]
    mean: float | None
    worst: float | None
    best: float | None

    @property
    def evaluations(self) -> int:
        """Number of evaluations of all its runs."""
        return sum(found.trials for found in self.runs)

    @property
    def wall_s(self) -> float:
        """Sum of the wall-clock seconds of all its runs."""
        return sum(found.run.wall_s for found in self.runs)

    @property
    def usd(self) -> float:
        """Known cost of the calls to models of all its runs, in US dollars."""
        return sum(found.usd for found in self.runs)


@dataclass(frozen=True, slots=True)
class WorkloadArms:
    """The arms of one workload, the fastest first."""

    task: str
    arms: tuple[Arm, ...]


def arms_of(found: Sequence[RunOverview]) -> list[WorkloadArms]:
    """The arms of every workload that was searched with different settings."""
    by_task: dict[str, dict[str, list[RunOverview]]] = {}
    for one in found:
        key = json.dumps(_kept(one), sort_keys=True, default=str)
        by_task.setdefault(one.run.task, {}).setdefault(key, []).append(one)
    return [_workload(task, groups) for task, groups in by_task.items() if len(groups) > 1]


def _kept(one: RunOverview) -> Mapping[str, object]:
    settings = one.run.settings
    return {name: settings[name] for name in settings if name not in VARIED}


def _workload(task: str, groups: Mapping[str, Sequence[RunOverview]]) -> WorkloadArms:
    tables = [_kept(runs[0]) for runs in groups.values()]
    names = sorted({name for table in tables for name in table})
    differing = [n for n in names if len({_shown(table.get(n)) for table in tables}) > 1]
    arms = [_arm(runs, differing) for runs in groups.values()]
    return WorkloadArms(task, tuple(sorted(arms, key=lambda arm: -(arm.mean or 0))))


def _arm(runs: Sequence[RunOverview], differing: Sequence[str]) -> Arm:
    speedups = [one.speedup for one in runs if one.speedup]
    settings = _kept(runs[0])
    return Arm(
        differing=tuple((words(n), _shown(settings.get(n))[:LONGEST]) for n in differing),
        runs=tuple(sorted(runs, key=lambda one: str(one.run.settings.get("seed")))),
        mean=exp(sum(map(log, speedups)) / len(speedups)) if speedups else None,
        worst=min(speedups, default=None),
        best=max(speedups, default=None),
    )


def _shown(value: object) -> str:
    """A setting's value as text."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(str(part) for part in value) or "none"
    return "none" if value in (None, "", {}) else str(value)
