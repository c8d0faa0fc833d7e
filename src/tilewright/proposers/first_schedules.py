"""Evaluates the most promising first schedules of a kernel before any schedule is changed.

The first plans of the built-in rewriter are whole schedules for the starting kernel. They differ in
tile sizes, loop order, and buffers, so they are treated like the instances of a template: all are
planned, but only a few are evaluated at a time, chosen by a `ParameterSearch` from their static
estimates. It learns from each result in which cases the estimate is wrong. As soon as further
schedules bring no gain, the other proposers continue with the kernels that were found.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Protocol, runtime_checkable

from tilewright.core.factors import PlannedSchedules
from tilewright.core.records import (
    Brief,
    Candidate,
    Failed,
    History,
    Measured,
    Plan,
    TargetBrief,
    Trial,
)
from tilewright.core.roles import OffersFactors, ParameterSearch, StreamingPlanner
from tilewright.core.templates import TriedPoint
from tilewright.proposers.factors import BEYOND
from tilewright.proposers.parameters import LEAST_GAIN, ParametersFirst

AT_A_TIME = 2
"""Number of schedules in one iteration. If there were more, the estimate would be corrected less
often."""
ENOUGH = 4
"""Number of consecutive schedules without a gain after which other kernels are made."""
_NAME = "schedule "
"""Beginning of the `instance` of a plan that makes a first schedule. Its position follows."""
_SEED = "seed"
"""The parameter of such a plan with the seed of all first schedules."""


@runtime_checkable
class Rewriter(OffersFactors, StreamingPlanner, Protocol):
    """A proposer whose plans for a starting kernel are whole schedules with estimates."""


class FirstSchedules:
    """A `Proposer` that chooses among the first schedules of a rewriter; another proposer makes all
    later kernels.

    Args:
        rewriter: plans the schedules, with estimates (`Plan.estimated`).
        others: makes all kernels after the first schedules.
        search: chooses the schedules that are evaluated.
    """

    parallel = True
    replays = True

    def __init__(
        self, rewriter: Rewriter, others: ParametersFirst, search: ParameterSearch
    ) -> None:
        self.name = others.name
        self._rewriter, self._others, self._search = rewriter, others, search
        self._planned: dict[int, PlannedSchedules] = {}  # by seed
        self._start: Trial | None = None

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """What `each_plan` gives."""
        return [p for p in self.each_plan(brief, parent, history, count, seed) if p is not None]

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan | None]:
        """While first schedules are tried, the most promising ones for the best kernel, and none
        for other kernels. If all were tried, and later, the plans of the other proposer.
        """
        if _begins(brief, history):
            if history.best is not None and history.best.candidate.id != parent.candidate.id:
                return
            chosen = yield from self._chosen(brief, history, count, seed)
            if chosen:
                yield from chosen
                return
        yield from self._others.each_plan(brief, parent, history, count, seed)

    def _chosen(
        self, brief: Brief, history: History, count: int, seed: int
    ) -> Generator[None, None, list[Plan]]:
        """The next schedules; None for each plan that is made before one is chosen.

        In later iterations and other processes, the plans are made again from the same data as in
        the first iteration, so they are the same.
        """
        self._start = history[0]
        tried = [plan.parameters for trial in history if (plan := trial.candidate.plan)]
        seed = int(tried[0][_SEED]) if tried else seed
        if seed not in self._planned:
            first, start = replace(brief, iteration=1, rank=0, dropout=0.0), history.before(1)
            made: list[Plan] = []
            for plan in self._rewriter.each_plan(first, start[0], start, count, seed):
                made += [plan] if plan is not None and plan.estimated else []
                yield None
            named = [_named(plan, n, seed) for n, plan in enumerate(made)]
            self._planned[seed] = PlannedSchedules(tuple(named))
        space = self._planned[seed]
        if not space.plans:
            return []
        known = [_tried(trial) for trial in history if trial.candidate.plan]
        return [space.plans[n] for (n,) in self._search.next_points(space, known, AT_A_TIME, seed)]

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """For a first schedule, the kernel that is made from the starting kernel."""
        if not _is_schedule(plan) or self._start is None:
            return self._others.implement(brief, parent, plan, count, seed)
        return self._others.implement(brief, self._start, plan, 1, seed)

    def normalize(self, source: str, target: TargetBrief) -> str:
        """The others' form."""
        return self._others.normalize(source, target)


def _begins(brief: Brief, history: History) -> bool:
    """Whether first schedules are tried: all kernels so far are first schedules, one of the last
    `ENOUGH` was a gain of at least `LEAST_GAIN` that is larger than noise, and the last iteration
    found a new kernel. If there are schedules of earlier runs, they are tried instead.
    """
    if brief.schedules or brief.iteration > history[-1].iteration + 1:
        return False
    gained, since = None, 0
    for trial in history[1:]:
        if not _is_schedule(trial.candidate.plan):
            return False
        since += 1
        found = trial.outcome
        if not isinstance(found, Measured):
            continue
        if gained is None or found.is_faster_than(gained, LEAST_GAIN):
            gained, since = found, 0
    return since < ENOUGH


def _is_schedule(plan: Plan | None) -> bool:
    return plan is not None and str(plan.parameters.get("instance", "")).startswith(_NAME)


def _named(plan: Plan, position: int, seed: int) -> Plan:
    """A plan whose kernel is counted as an instance, and made from the starting kernel."""
    parameters: dict[str, str | int] = {
        **plan.parameters,
        "instance": f"{_NAME}{position}",
        _SEED: str(seed),
        "beyond": BEYOND,
    }
    return replace(plan, parameters=parameters)


def _tried(trial: Trial) -> TriedPoint:
    plan = trial.candidate.plan
    assert plan is not None
    position = int(str(plan.parameters["instance"]).removeprefix(_NAME))
    bound = trial.outcome.bound if isinstance(trial.outcome, Failed) else None
    return TriedPoint((position,), trial.latency, bound)
