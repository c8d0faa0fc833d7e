"""Searches the parameters of kernels before other kernels are made from them.

A template is part of the folder, in which case the starting kernel is its first instance, or of a
candidate of a model. As long as its instances become faster, only further instances are made from
the fastest one. Afterwards, the proposers that write new structures continue with the fastest
instance. Kernels that a rewriter made by steps with numbers have instances, too. Whenever an
iteration has found a faster kernel, the next iteration only tries other numbers in the steps of
this kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

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
from tilewright.core.roles import (
    LiveProposer,
    OffersFactors,
    ParameterSearch,
    Proposer,
    Responder,
    StreamingPlanner,
)
from tilewright.core.templates import (
    KernelTemplate,
    Point,
    TemplateNotation,
    TriedPoint,
    parse_template,
)

NAME = "parameters"
"""Proposer and menu option of instances."""
ENOUGH = 18
"""Number of consecutive instances without a gain after which the search of the values ends."""
LEAST_GAIN = 0.005
"""Share of latency by which an instance must be faster to count as a gain. The confidence intervals
of measured latencies must not overlap either.
"""
INSTANCES = 6
"""Number of instances of a template in one iteration. It does not depend on the number of plans,
because instances need no calls to models.
"""
_HALVINGS = (400, 200, 140)
"""For each rung, the percentage of the fastest instance's latency at which the measurement of an
instance stops. The first instances are measured almost to the end, because this provides the most
information. Later ones are stopped earlier.
"""
_RUNG = 12
"""Number of instances of a rung."""


@dataclass(slots=True)
class _Tuned:
    """A template and its instances so far."""

    template: KernelTemplate
    tried: list[TriedPoint] = field(default_factory=list)
    best: Trial | None = None
    since_gain: int = 0
    _gained: Measured | None = None  # by the last gain

    def add(self, trial: Trial, point: Point) -> None:
        bound = trial.outcome.bound if isinstance(trial.outcome, Failed) else None
        self.tried.append(TriedPoint(point, trial.latency, bound))
        self.since_gain += 1
        if not isinstance(trial.outcome, Measured):
            return
        if self._gained is None or trial.outcome.is_faster_than(self._gained, LEAST_GAIN):
            self._gained, self.since_gain = trial.outcome, 0
        if self.best is None or trial.outcome.latency < (self.best.latency or math.inf):
            self.best = trial

    @property
    def is_settled(self) -> bool:
        everything = len(self.tried) >= len(self.template.points())
        return everything or self.best is None or self.since_gain >= ENOUGH


class _Instances:
    """The templates of a history, by the candidates that introduced them."""

    def __init__(self, start: KernelTemplate | None, notation: TemplateNotation | None) -> None:
        self._start, self._notation = start, notation
        self._tuned: dict[str, _Tuned] = {}
        self._template_of: dict[str, str] = {}  # instance -> candidate that introduced the template

    def add(self, trial: Trial, history: History) -> None:
        """Take in the last trial of a history."""
        candidate, plan = trial.candidate, trial.candidate.plan
        brought = self._start if trial.index == 0 else None
        if plan is not None and plan.brings_template:
            brought = _parsed(str(plan.parameters["template"]), self._notation)
        first = candidate.id
        if brought is not None:
            self._tuned.setdefault(first, _Tuned(brought))
        elif plan is not None and str(plan.parameters.get("instance")) in self._tuned:
            first = str(plan.parameters["instance"])
        else:
            return
        tuned = self._tuned[first]
        self._template_of[candidate.id] = first
        if brought is not None:
            tuned.add(trial, brought.points()[0])
        elif plan is not None:
            tuned.add(trial, tuned.template.point_in(plan.parameters))

    def of(self, candidate_id: str) -> tuple[str, _Tuned] | None:
        """The template of an instance, and the candidate that introduced it."""
        first = self._template_of.get(candidate_id)
        return None if first is None else (first, self._tuned[first])


@lru_cache(maxsize=64)
def _parsed(text: str, notation: TemplateNotation | None) -> KernelTemplate | None:
    return parse_template(text, notation)


def _no_modules(target: TargetBrief) -> list[str]:
    return []


class ParametersFirst:
    """A `Proposer` that proposes instances of templates. Another proposer makes all other kernels.

    Args:
        others: the proposer for kernels that are not instances of a template, and for templates
            whose parameters were searched completely.
        search: chooses the values of the parameters.
        factors: finds the numbers in the steps of kernels that can be searched; None if they are
            not searched.
        start: the template of the starting kernel, if the starting kernel is a template.
        notation: how templates in candidates are written.
    """

    def __init__(
        self,
        others: Proposer,
        search: ParameterSearch,
        start: KernelTemplate | None,
        notation: TemplateNotation | None,
        factors: OffersFactors | None = None,
    ) -> None:
        self.name = others.name
        self.waits = getattr(others, "waits", False)
        self.parallel = getattr(others, "parallel", False)
        self.replays = getattr(others, "replays", False)
        self.modules = getattr(others, "modules", _no_modules)
        self._others, self._search, self._factors = others, search, factors
        self._instances = partial(_Instances, start, notation)
        self._planned: dict[str, KernelTemplate] = {}  # by the candidate that introduced it

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """What `each_plan` gives."""
        plans = self.each_plan(brief, parent, history, count, seed)
        return [plan for plan in plans if plan is not None]

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan | None]:
        """If the parent is the fastest instance of a template whose search is not complete, plans
        of further instances. If the parent is a new best kernel whose steps have numbers, plans of
        instances of this kernel. Otherwise, the plans of the other proposers.
        """
        found = history.indexed(self._instances).of(parent.candidate.id)
        if found is not None and not found[1].is_settled:
            return iter(self._instances_of(*found, parent, seed))
        others, best = self._others, self._new_best(brief, history)
        if best is not None and best.candidate.id != parent.candidate.id:
            return iter(())
        if best is not None and (plans := self._renumbered(brief, best, history, seed)):
            return iter(plans)
        if isinstance(others, StreamingPlanner):
            return others.each_plan(brief, parent, history, count, seed)
        return iter(others.plan(brief, parent, history, count, seed))

    def _new_best(self, brief: Brief, history: History) -> Trial | None:
        """The best kernel, if steps made it in the last iteration and its gain is at least
        `LEAST_GAIN` and larger than noise; otherwise None.
        """
        best, earlier = history.best, history.before(brief.iteration - 1).best
        if self._factors is None or not self._factors.offers_factors(brief.target):
            return None
        if best is None or earlier is None:
            return None
        now, before, plan = best.outcome, earlier.outcome, best.candidate.plan
        if not (isinstance(now, Measured) and isinstance(before, Measured)):
            return None
        is_new = now.is_faster_than(before, LEAST_GAIN)
        return best if is_new and plan is not None and plan.steps else None

    def _renumbered(self, brief: Brief, kernel: Trial, history: History, seed: int) -> list[Plan]:
        """The most promising instances of a kernel that was made by steps with numbers, half as
        many as of a template; if one of them is faster, others follow.
        """
        found = self._factors.factors(brief.target, kernel, history) if self._factors else None
        if found is None:
            return []
        points = self._search.next_points(
            found, found.tried, math.ceil(INSTANCES / 2), seed + len(found.tried)
        )
        return [found.plans[point] for point in points]

    def _instances_of(self, first: str, tuned: _Tuned, parent: Trial, seed: int) -> list[Plan]:
        """Plans of one instance each; none if the parent is an instance that is not the fastest."""
        if tuned.best is None or tuned.best.candidate.id != parent.candidate.id:
            return []
        self._planned[first] = tuned.template
        beyond = _HALVINGS[min(len(tuned.tried) // _RUNG, len(_HALVINGS) - 1)]
        plans = []
        for point in self._search.next_points(
            tuned.template, tuned.tried, INSTANCES, seed + len(tuned.tried)
        ):
            values = tuned.template.assignment(point)
            text = ", ".join(f"{name} = {value}" for name, value in values.items())
            parameters = {
                **tuned.template.planned(values),
                "instance": first,
                "beyond": beyond,
            }
            plans.append(
                Plan(parent.candidate.id, NAME, f"Set {text}.", NAME, parameters=parameters)
            )
        return plans

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """The instance that a plan names; for other plans, the candidates of the other
        proposers.
        """
        if plan.proposer != NAME:
            return self._others.implement(brief, parent, plan, count, seed)
        template = self._planned[str(plan.parameters["instance"])]
        source = template.instance(template.assignment(template.point_in(plan.parameters)))
        return [Candidate(source, parent.candidate.id, plan, NAME)]

    def working(self, brief: Brief, parent: Trial, plan: Plan) -> Iterator[list[Candidate]] | None:
        """The candidates that the other proposers return while they work."""
        others = self._others
        if plan.proposer == NAME or not isinstance(others, LiveProposer):
            return None
        return others.working(brief, parent, plan)

    def give_up(self) -> None:
        """End the authors of the other proposers that are still working."""
        if isinstance(self._others, LiveProposer):
            self._others.give_up()

    def respond(
        self, brief: Brief, parent: Trial, trials: Sequence[Trial], history: History, seed: int
    ) -> list[Candidate]:
        """The responses of the other proposers to outcomes of their candidates."""
        if trials[0].candidate.proposer == NAME or not isinstance(self._others, Responder):
            return []
        return self._others.respond(brief, parent, trials, history, seed)

    def normalize(self, source: str, target: TargetBrief) -> str:
        """The others' form."""
        return self._others.normalize(source, target)
