"""What earlier runs found, as a run on a similar workload takes it up.

The procedure is the published one (Hong and others, *Autocomp*, schedule reuse): the recorded plans
are taken up one at a time, each as the only option there is, by a narrow search; what that gives is
where the search at large begins. A proposer that carries out a whole schedule by itself needs one
iteration for it.
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
"""Kernels kept, plans for each and candidates of a plan while schedules are taken up."""
OFFERED = 3
"""Schedules that are offered by themselves, each of another workload."""
LOOKED_AT = 4
"""Runs of one workload that are looked at for its best schedule, the newest ones."""
FARTHEST = 16.0
"""Ratio of two sizes from which on a workload counts as another kind."""


def schedule_of(run: RunRecord, history: History) -> Schedule:
    """The plans from the starting kernel to the best one; `InputError` when there are none.

    A plan that went back to an ancestor follows on that ancestor's plans, not on its parent's.
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
    """What a run takes up: chosen and kept when it has no trials yet, read back afterwards."""
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
    """What the project's runs found for the workloads nearest in shape, of the same kind.

    Of each workload the fastest kernel of its newest runs counts. Runs of the new one's own
    workload are not offered: another seed would else not be another try. An earlier run with the
    same settings but another budget hands on what it was offered, so that both begin alike. Folders
    are not offered, whose sizes are not in their names, nor runs on another machine.
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
    """How far two workloads of one kind are apart: the sum of |log2| of their sizes' ratios.

    None for the same workload, for another kind, and where a size differs by more than `FARTHEST`
    times. The kind is the name without its numbers: `gemm-512x64x256` and `gemm-16x16x16` share it.
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
    """Whether a run was for a near workload, on the same machine with the same settings of it."""
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
    """The first iterations of a search that takes up schedules; none of them without any.

    `plans` are those of the nearest schedule that are taken up in turn, by their numbers; empty
    where the proposer carries out whole schedules.
    """

    iterations: int = 0
    plans: tuple[tuple[int, Plan], ...] = ()

    @classmethod
    def of(cls, schedules: Sequence[Schedule], menu: Sequence[MenuOption], replays: bool) -> Self:
        """The phase for these schedules: plans on options that are not on the menu are left out."""
        if not schedules or replays:
            return cls(min(1, len(schedules)))
        options = {option.id for option in menu}
        numbered = enumerate(schedules[0].plans)
        plans = tuple((n, plan) for n, plan in numbered if plan.option in options)
        return cls(len(plans), plans)

    def has(self, iteration: int) -> bool:
        """Whether an iteration, counted from 1, is one of the phase."""
        return iteration <= self.iterations

    def step(self, iteration: int) -> int | None:
        """The number of the recorded plan that an iteration takes up."""
        return self.plans[iteration - 1][0] if iteration <= len(self.plans) else None

    def menu(self, iteration: int, menu: tuple[MenuOption, ...]) -> tuple[MenuOption, ...]:
        """What is offered in an iteration: in the phase, the recorded plan's option alone."""
        if iteration > len(self.plans):
            return menu
        return tuple(o for o in menu if o.id == self.plans[iteration - 1][1].option)

    def breadth(self, iteration: int, count: int) -> int:
        """Plans of a kernel, or candidates of a plan: in the phase, at most `BREADTH`."""
        return min(count, BREADTH) if self.has(iteration) else count


@dataclass(frozen=True, slots=True)
class ReuseFirst:
    """A `SearchStrategy` that is narrow in the reuse phase, and another one's afterwards.

    Attributes:
        others: the strategy of the search at large, whose iterations count from the phase's end.
        phase: iterations of the phase.
        patience: iterations of the search at large before it may end for want of progress.
        iterations: T, of the search at large.
    """

    others: SearchStrategy
    phase: int
    patience: int
    iterations: int

    def select(self, history: History) -> list[Trial]:
        """The others' parents, in the phase the first of them."""
        found = self.others.select(history)
        next_one = history[-1].iteration + 1 if history else 1
        return found[:BREADTH] if next_one <= self.phase else found

    def limit_latency(self, parent: Trial) -> float | None:
        """The others' limit."""
        return self.others.limit_latency(parent)

    def should_stop(self, history: History, iteration: int) -> str | None:
        """Never in the phase, nor for want of progress before the search at large had its turn."""
        own = iteration - self.phase
        if own < 1 or own <= min(self.patience, self.iterations):
            return None
        return self.others.should_stop(history, own)
