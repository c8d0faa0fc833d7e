"""Schedules of earlier runs, with which a run on a similar workload begins.

The procedure is that of Autocomp (Hong and others, schedule reuse). A narrow search tries the
recorded plans one at a time, each as the only option of the menu. The normal search then starts
from the resulting kernels. A proposer that can carry out a whole schedule needs no such phase: it
does so in its first plans.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tilewright.core.budget import Budget
from tilewright.core.config import Settings
from tilewright.core.errors import InputError
from tilewright.core.records import History, Measured, MenuOption, Plan, RunRecord, Schedule, Trial
from tilewright.core.roles import SearchStrategy, Storage
from tilewright.core.run_notes import ReusedSchedule

BREADTH = 2
"""Number of kernels in the beam, of plans for each kernel, and of candidates for each plan during
the reuse phase.
"""
OFFERED = 3
"""Maximum number of schedules that are selected automatically, each of another workload."""
LOOKED_AT = 4
"""Number of the newest runs of a workload among which its best schedule is searched."""
FARTHEST = 16.0
"""Ratio of two sizes above which the schedule of a workload is not reused."""


def schedule_of(run: RunRecord, history: History) -> Schedule:
    """The plans from the starting kernel to the best one; `InputError` if there are none.

    A plan that started from an ancestor of its parent follows the plans of this ancestor.
    """
    plans: list[Plan] = []
    latencies: list[float] = []
    trial = history.best
    unit = trial.outcome.unit if trial and isinstance(trial.outcome, Measured) else ""
    while trial is not None and (plan := trial.candidate.plan) is not None:
        plans.append(plan)
        latencies.append(trial.latency or 0.0)
        trial = history.get(str(plan.parameters.get("base", plan.parent_id)))
    if trial is None or trial.latency is None or not plans:
        raise InputError(
            f"run {run.id} of {run.task} has found no faster kernel yet, so it has no steps to "
            "reuse. Choose another run; `tilewright runs list` lists them."
        )
    return Schedule(run.task, tuple(plans[::-1]), (trial.latency, *latencies[::-1]), unit)


def reused_schedules(run: RunRecord, settings: Settings, storage: Storage) -> list[ReusedSchedule]:
    """The schedules with which a run begins. They are selected and stored when the run has no
    trials yet, and read later.
    """
    notes: list[ReusedSchedule] = storage.kept(run.id, ReusedSchedule)
    if notes or storage.history(run.id):
        return notes
    if settings.schedule_from:
        source = storage.run(settings.schedule_from)
        notes = [ReusedSchedule(schedule_of(source, storage.history(source.id)), source.id)]
    elif settings.reuse:
        notes = nearest_schedules(run, storage)
    for note in notes:
        storage.keep(run.id, note)
    return notes


def nearest_schedules(new: RunRecord, storage: Storage) -> list[ReusedSchedule]:
    """Schedules of the project's runs for workloads of the same kind, the most similar sizes first.

    For each workload, the schedule of the fastest kernel of its newest runs is used. Runs of the
    same workload are left out, so that runs with different seeds are independent. If an earlier run
    differs only in its budget, its selection is used again, so that both runs begin in the same
    way. Kernel folders are left out, because their sizes are unknown, and so are runs on another
    machine.
    """
    runs: dict[str, list[RunRecord]] = {}
    for run in storage.runs():
        if run.id == new.id:
            continue
        if run.task == new.task and _but_for_the_budget(run) == _but_for_the_budget(new):
            return [note for note in storage.kept(run.id, ReusedSchedule) if note.chosen]
        if _is_alike(run, new):
            runs.setdefault(run.task, []).append(run)
    found: list[ReusedSchedule] = []
    for name in sorted(runs, key=lambda name: (distance(new.task, name) or 0.0, name)):
        best = min(_schedules(runs[name][:LOOKED_AT], storage), key=_latency, default=None)
        if best is not None:
            found.append(best)
        if len(found) == OFFERED:
            break
    return found


def distance(one: str, other: str) -> float | None:
    """The distance between two workloads of one kind: the sum of |log2(a / b)| over their sizes a
    and b.

    None for the same workload, for another kind, and if the ratio of two sizes exceeds `FARTHEST`.
    The kind is the name without its numbers, so `gemm-512x64x256` and `gemm-16x16x16` have the same
    kind.
    """
    sizes = [[int(n) for n in re.findall(r"\d+", _spec(name))] for name in (one, other)]
    kinds = [re.sub(r"\d+", "#", _spec(name)) for name in (one, other)]
    if one == other or kinds[0] != kinds[1] or any(Path(n).is_absolute() for n in (one, other)):
        return None
    if one.partition(":")[0] != other.partition(":")[0]:
        return None
    ratios = [abs(math.log2((a + 0.5) / (b + 0.5))) for a, b in zip(*sizes, strict=True)]
    return None if any(r > math.log2(FARTHEST) for r in ratios) else sum(ratios)


def _spec(name: str) -> str:
    return name.partition(":")[2]


def _is_alike(run: RunRecord, new: RunRecord) -> bool:
    """Whether a run was for a similar workload, with the same target and the same settings of the
    target.
    """
    same = all(
        run.settings.get(name) == new.settings.get(name) for name in ("target", "target_settings")
    )
    return same and distance(new.task, run.task) is not None


def _but_for_the_budget(run: RunRecord) -> str:
    limits = Settings.limits(Budget())
    kept = {name: value for name, value in run.settings.items() if name not in limits}
    return json.dumps(kept, sort_keys=True, default=dict)


def _schedules(runs: Iterable[RunRecord], storage: Storage) -> Iterable[ReusedSchedule]:
    for run in runs:
        try:
            schedule = schedule_of(run, storage.history(run.id))
        except InputError:
            continue
        yield ReusedSchedule(schedule, run.id, chosen=True)


def _latency(note: ReusedSchedule) -> float:
    return note.schedule.latencies[-1]


@dataclass(frozen=True, slots=True)
class ReusePhase:
    """The first iterations of a search, each of which tries one recorded plan. There are none
    without schedules.

    `plans` are the plans of the most similar schedule, with their numbers.
    """

    plans: tuple[tuple[int, Plan], ...] = ()

    @classmethod
    def of(cls, schedules: Sequence[Schedule], menu: Sequence[MenuOption], replays: bool) -> Self:
        """The phase for these schedules: plans on options that are not on the menu are left out.
        There is none if the proposer carries out whole schedules.
        """
        if not schedules or replays:
            return cls()
        options = {option.id for option in menu}
        numbered = enumerate(schedules[0].plans)
        plans = tuple((n, plan) for n, plan in numbered if plan.option in options)
        return cls(plans)

    @property
    def iterations(self) -> int:
        """Number of iterations of the phase."""
        return len(self.plans)

    def has(self, iteration: int) -> bool:
        """Whether an iteration, counted from 1, belongs to the phase."""
        return iteration <= self.iterations

    def step(self, iteration: int) -> int | None:
        """The number of the recorded plan that an iteration tries."""
        return self.plans[iteration - 1][0] if iteration <= len(self.plans) else None

    def menu(self, iteration: int, menu: tuple[MenuOption, ...]) -> tuple[MenuOption, ...]:
        """The menu of an iteration. In the phase, it contains only the option of the recorded
        plan.
        """
        if iteration > len(self.plans):
            return menu
        return tuple(o for o in menu if o.id == self.plans[iteration - 1][1].option)

    def breadth(self, iteration: int, count: int) -> int:
        """The number of plans of a kernel, or of candidates of a plan, which is at most `BREADTH`
        in the phase.
        """
        return min(count, BREADTH) if self.has(iteration) else count


@dataclass(frozen=True, slots=True)
class ReuseFirst:
    """A `SearchStrategy` that selects few parents in the reuse phase, and follows another strategy
    afterwards.

    Attributes:
        others: the strategy of the normal search, whose iterations are counted from the end of the
        phase. phase: the reuse phase. patience: number of iterations of the normal search before it
        may end because of no progress. iterations: T of the normal search.
    """

    others: SearchStrategy
    phase: int
    patience: int
    iterations: int

    def select(self, history: History) -> list[Trial]:
        """The parents that the other strategy selects; in the phase, only the first ones."""
        found = self.others.select(history)
        next_one = history[-1].iteration + 1 if history else 1
        return found[:BREADTH] if next_one <= self.phase else found

    def limit_latency(self, parent: Trial) -> float | None:
        """The limit of the other strategy."""
        return self.others.limit_latency(parent)

    def should_stop(self, history: History, iteration: int) -> str | None:
        """The reason of the other strategy. The search never stops in the phase, nor because of no
        progress before `patience` iterations.
        """
        own = iteration - self.phase
        if own < 1 or own <= min(self.patience, self.iterations):
            return None
        return self.others.should_stop(history, own)
