"""Evaluates the most promising first schedules of a kernel before any schedule is changed.

The first plans of the built-in rewriter are whole schedules for the starting kernel. They differ in
tile sizes, loop order, and buffers, so they are treated like the instances of a template: all are
planned, but only a few are evaluated at a time, chosen by a `ParameterSearch` from their static
estimates. Only the first schedule with an estimated gain, and each that promises far more, is
evaluated at once. The search learns from each result in which cases the estimate is wrong. As soon
as further schedules bring no gain, the other proposer continues with the kernels that were found.
At first, it makes candidates from few kernels and without variants, so that the next iteration can
continue from a gain soon. As long as there is no gain, it continues from more and more kernels.
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
from tilewright.core.templates import Point, TriedPoint
from tilewright.proposers.factors import BEYOND
from tilewright.proposers.parameters import LEAST_GAIN, ParametersFirst

AT_A_TIME = 2
"""Number of schedules in one iteration. If there were more, the estimate would be corrected less
often."""
FAR_MORE = 2
"""A later schedule is evaluated at once if its estimated speedup is more than this number times
that of the previous schedule that was evaluated at once."""
ENOUGH = 4
"""Number of consecutive schedules without a gain after which other kernels are made."""
WIDTH = 2
"""Number of kernels from which candidates are made after the first schedules, and after a gain. It
doubles with each iteration without a gain."""
VARIANTS_FROM = 4 * WIDTH
"""Number of kernels from which on plans have variants."""
_NAME = "schedule "
"""Beginning of the `instance` of a plan that makes a first schedule."""
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
        self.modules = others.modules
        self._rewriter, self._others, self._search = rewriter, others, search
        self._planned: dict[int, tuple[Plan, ...]] = {}  # by seed
        self._start: Trial | None = None
        self._variants = True

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """What `each_plan` gives."""
        return [p for p in self.each_plan(brief, parent, history, count, seed) if p is not None]

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan | None]:
        """While first schedules are tried, the most promising ones for the first kernel that the
        strategy selects, and none for other kernels. If all were tried, and later, the plans of the
        other proposer for the first kernels of the beam.
        """
        if _begins(brief, history):
            if brief.rank:
                return
            chosen = yield from self._chosen(brief, history, count, seed)
            if chosen:
                yield from chosen
                return
        width = WIDTH << history.indexed(_Gains).idle
        self._variants = width >= VARIANTS_FROM
        if brief.rank < width:
            yield from self._others.each_plan(brief, parent, history, count, seed)

    def _chosen(
        self, brief: Brief, history: History, count: int, seed: int
    ) -> Generator[Plan | None, None, list[Plan]]:
        """The next schedules. In a run's first iteration, the first schedule with an estimated gain
        comes before all others are planned, which may take long. So does each later one that
        promises `FAR_MORE` times as much; None for each other plan.

        In later iterations and other processes, the plans are made with the seed and the data of
        the first iteration, so they are the same.
        """
        soon: list[Plan] = []
        self._start = history[0]
        tried = [(trial, plan) for trial in history if (plan := trial.candidate.plan) is not None]
        seed = int(tried[0][1].parameters[_SEED]) if tried else seed
        if seed not in self._planned:
            first, start = replace(brief, iteration=1, rank=0, dropout=0.0), history.before(1)
            made: list[Plan] = []
            for plan in self._rewriter.each_plan(first, start[0], start, count, seed):
                if plan is None or not plan.estimated:
                    yield None
                    continue
                made.append(_named(plan, seed))
                least = FAR_MORE * (soon[-1].expected_gain or 0) if soon else 1 + LEAST_GAIN
                is_soon = not tried and (plan.expected_gain or 0) > least
                soon += made[-1:] if is_soon else []
                yield made[-1] if is_soon else None
            self._planned[seed] = tuple(made)
        plans = self._planned[seed]
        if not plans:
            return []
        names = [plan.parameters["instance"] for plan in plans]
        known = [_tried(trial, (names.index(p.parameters["instance"]),)) for trial, p in tried]
        space = PlannedSchedules(plans)
        points = self._search.next_points(space, known, AT_A_TIME, seed)
        return [plans[n] for (n,) in points if plans[n] not in soon]

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """For a first schedule, the kernel that is made from the starting kernel. For other plans,
        the candidates of the other proposer.
        """
        if not _is_schedule(plan) or self._start is None:
            count = count if self._variants else 1
            return self._others.implement(brief, parent, plan, count, seed)
        return self._others.implement(brief, self._start, plan, 1, seed)

    def normalize(self, source: str, target: TargetBrief) -> str:
        """The others' form."""
        return self._others.normalize(source, target)


class _Gains:
    """The number of iterations since the last gain in which not only numbers were changed."""

    def __init__(self) -> None:
        self._gained: Measured | None = None
        self._iteration = 0  # of the last gain
        self._last = 0  # the last iteration that was counted
        self.idle = 0

    def add(self, trial: Trial, history: History) -> None:
        """Add the last trial of a history."""
        plan, found = trial.candidate.plan, trial.outcome
        if isinstance(found, Measured) and (
            self._gained is None or found.is_faster_than(self._gained, LEAST_GAIN)
        ):
            self._gained, self._iteration, self.idle = found, trial.iteration, 0
        is_new = trial.iteration > max(self._iteration, self._last)
        if is_new and plan is not None and not plan.is_instance:
            self._last = trial.iteration
            self.idle += 1


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


def _named(plan: Plan, seed: int) -> Plan:
    """A plan whose kernel is counted as an instance, and made from the starting kernel."""
    parameters: dict[str, str | int] = {
        **plan.parameters,
        "instance": f"{_NAME}{plan.id}",
        _SEED: str(seed),
        "beyond": BEYOND,
    }
    return replace(plan, parameters=parameters)


def _tried(trial: Trial, point: Point) -> TriedPoint:
    bound = trial.outcome.bound if isinstance(trial.outcome, Failed) else None
    return TriedPoint(point, trial.latency, bound)
