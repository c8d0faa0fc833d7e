"""Finds the numbers in the steps that made a kernel, and makes kernels with other numbers.

Before: `retile i 2; pipeline B k 2`. After, one of the instances: `retile i 4; pipeline B k 2`. All
steps from the changed one on are carried out again. If one of them no longer applies, there is no
such instance. The static estimate does not decide which numbers are good, but it excludes bad ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from tilewright.core.factors import StepFactors
from tilewright.core.records import Failed, History, Plan, Trial
from tilewright.core.templates import PLANNED, Parameter, Point, TriedPoint

WITHIN = 1.05
"""Maximum estimate of an instance that is tried, relative to the kernel's own estimate."""
BEYOND = 140
"""The measurement of an instance stops at this percentage of the kernel's latency."""

K = TypeVar("K")
S = TypeVar("S")


class Numbered(Protocol[K, S]):
    """Operations of a rewriter on its steps `S`, their numbers, and its kernels `K`."""

    def read(self, source: str) -> K | None:
        """The kernel in a source; None if it cannot be read."""
        ...

    def parse(self, text: str) -> S:
        """A step from its text in a plan."""
        ...

    def number(self, step: S) -> tuple[str, int] | None:
        """The step's text without its number, and the number; None if the step has no number."""
        ...

    def renumbered(self, kernel: K, step: S) -> Iterator[S]:
        """The step with each other number that may be possible for the kernel."""
        ...

    def applied(self, kernel: K, step: S) -> K | None:
        """The kernel after a step, even if the step changes nothing; None if the step does not
        apply.
        """
        ...

    def printed(self, kernel: K) -> str:
        """The kernel's text."""
        ...

    def cost(self, kernel: K) -> float:
        """The static estimate of the latency, in any unit."""
        ...

    def sentence(self, kernel: K, step: S) -> str:
        """A description of the effect of a step."""
        ...


@dataclass(frozen=True, slots=True)
class _Made(Generic[S]):
    """A step that led to a kernel, and its plan. The plan started from the kernel `base`, and its
    first step has the number `first` among all steps.
    """

    step: S
    plan: Plan
    base: Trial
    first: int


def step_factors(
    rewriter: Numbered[K, S], kernel: Trial, history: History, author: str
) -> StepFactors | None:
    """The numbers in the steps that made a kernel; None if no other numbers are promising."""
    way = _way(rewriter, kernel, history)
    names = _names(rewriter, way)
    stages = _stages(rewriter, way)
    if not names or stages is None:
        return None
    tried, estimates = _tried(rewriter, kernel, history)
    now = rewriter.cost(stages[-1])
    texts = {rewriter.printed(stages[-1])}  # later steps may undo the effect of a number
    plans: dict[Point, Plan] = {}
    for at, step, made in _instances(rewriter, way, stages):
        steps = [*(one.step for one in way[:at]), step, *(one.step for one in way[at + 1 :])]
        point, cost, text = _point(rewriter, steps), rewriter.cost(made), rewriter.printed(made)
        if point in estimates or text in texts or cost > WITHIN * now:
            continue
        texts.add(text)
        estimates[point] = cost
        plan = _plan(kernel, way[at], rewriter.sentence(stages[at], step), steps, author)
        values = {f"{PLANNED}{n}": value for n, value in zip(names, point, strict=True)}
        parameters = {**plan.parameters, **values}
        plans[point] = replace(plan, parameters=parameters, expected_gain=now / cost)
    if not plans:
        return None
    columns = zip(*estimates, strict=True)
    axes = [Parameter(n, tuple(sorted({*c}))) for n, c in zip(names, columns, strict=True)]
    return StepFactors(tuple(axes), plans, tried, estimates)


def _way(rewriter: Numbered[K, S], kernel: Trial, history: History) -> list[_Made[S]]:
    """The steps that led to the kernel, in order, beginning after the last ancestor that was not
    made by steps.
    """
    plans: list[tuple[Trial, Plan]] = []
    trial: Trial | None = kernel
    while trial is not None and (plan := trial.candidate.plan) is not None and plan.steps:
        trial = history.get(str(plan.parameters.get("base", plan.parent_id)))
        if trial is not None:
            plans.append((trial, plan))
    way: list[_Made[S]] = []
    for base, plan in reversed(plans):
        first = len(way)
        way += [_Made(rewriter.parse(text), plan, base, first) for text in plan.steps]
    return way


def _names(rewriter: Numbered[K, S], way: Sequence[_Made[S]]) -> list[str]:
    """The steps that have numbers, in order, each with a unique name."""
    found: list[str] = []
    for made in way:
        if (number := rewriter.number(made.step)) is not None:
            earlier = sum(name.split(" #")[0] == number[0] for name in found)
            found.append(f"{number[0]} #{earlier + 1}" if earlier else number[0])
    return found


def _point(rewriter: Numbered[K, S], steps: Iterable[S]) -> Point:
    """The numbers in these steps."""
    return tuple(n[1] for n in map(rewriter.number, steps) if n is not None)


def _stages(rewriter: Numbered[K, S], way: Sequence[_Made[S]]) -> list[K] | None:
    """The kernel before each step and after the last one; None if the steps cannot be repeated."""
    kernel = rewriter.read(way[0].base.candidate.source) if way else None
    stages = []
    for made in way:
        if kernel is None:
            return None
        stages.append(kernel)
        kernel = rewriter.applied(kernel, made.step)
    return None if kernel is None else [*stages, kernel]


def _instances(
    rewriter: Numbered[K, S], way: Sequence[_Made[S]], stages: Sequence[K]
) -> Iterator[tuple[int, S, K]]:
    """For each instance: the index of the step with another number, this step, and the resulting
    kernel.
    """
    for at, made in enumerate(way):
        for step in rewriter.renumbered(stages[at], made.step):
            kernel: K | None = stages[at]
            for one in (step, *(later.step for later in way[at + 1 :])):
                kernel = None if kernel is None else rewriter.applied(kernel, one)
            if kernel is not None:
                yield at, step, kernel


def _tried(
    rewriter: Numbered[K, S], kernel: Trial, history: History
) -> tuple[tuple[TriedPoint, ...], dict[Point, float]]:
    """The latencies of the kernel and of the other instances with its structure, and their
    points."""
    head, tried, estimates = _head(kernel), [], dict[Point, float]()
    for trial in history:
        read = rewriter.read(trial.candidate.source) if _head(trial) == head else None
        if read is None:
            continue
        point = _point(rewriter, (made.step for made in _way(rewriter, trial, history)))
        bound = trial.outcome.bound if isinstance(trial.outcome, Failed) else None
        tried.append(TriedPoint(point, trial.latency, bound))
        estimates[point] = rewriter.cost(read)
    return tuple(tried), estimates


def _head(trial: Trial) -> str:
    """The candidate from which a kernel's structure comes. For an instance, this is the kernel
    whose numbers it varies.
    """
    plan = trial.candidate.plan
    return str((plan.parameters if plan else {}).get("instance", trial.candidate.id))


def _plan(
    kernel: Trial,
    changed: _Made[S],
    words: str,
    steps: Sequence[S],
    author: str,
) -> Plan:
    """A plan with the steps of the plan that contains the changed step, followed by the steps of
    all later plans.
    """
    parameters: dict[str, str | int] = {
        "steps": "; ".join(map(str, steps[changed.first :])),
        "base": changed.base.candidate.id,
        "instance": _head(kernel),
        "beyond": BEYOND,
    }
    text = f"Change a number in an earlier step: {words} (before: {changed.step})."
    return Plan(kernel.candidate.id, changed.plan.option, text, author, parameters)
