"""The built-in proposer: draws menu options that apply as plans, and implements them by
rewriting."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

from tilewright.core.errors import InputError
from tilewright.core.factors import StepFactors
from tilewright.core.records import (
    Brief,
    Candidate,
    History,
    LeftAlone,
    Measured,
    Plan,
    TargetBrief,
    Trial,
    Workload,
)
from tilewright.proposers.factors import step_factors
from tilewright.proposers.plan_variants import lengthened
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.canonical import are_alike, canonical_text
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.estimate.cost import Cost, estimate
from tilewright.proposers.rewriter.estimate.expectation import changes, described, gain, parts
from tilewright.proposers.rewriter.ir import Kernel, commands, has_opaque, same_kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.by_hand import left_alone
from tilewright.proposers.rewriter.planning.catalogue import CHAIN, RAISE
from tilewright.proposers.rewriter.planning.full_sequences import (
    option_of,
    quick_drafts,
    whole_drafts,
)
from tilewright.proposers.rewriter.planning.numbers import NumberedSteps
from tilewright.proposers.rewriter.planning.planner import (
    LONGEST,
    Draft,
    draw,
    extended,
    loads_what_it_stores,
    passes_through_memory,
)
from tilewright.proposers.rewriter.planning.random_walk import is_stale, random_walk, tried_from
from tilewright.proposers.rewriter.planning.reused_plans import plans_of_schedule
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.reading import read

NAME = "builtin"
GIVEN = 6
"""Of this number of first plans, one keeps the given schedule; the others begin with the naive loop
nest."""
MOST_LONG = 1
"""Number of long plans for a kernel with the schedule of a tuned starting kernel. Each takes
seconds for a large kernel."""
MOST_LONGER = 4
"""A naive nest of a recurrence may have this many times the commands of the starting kernel."""


class RewriterProposer:
    """Writes candidates without a model. The result depends only on the seed."""

    name = NAME
    replays = True

    def __init__(self) -> None:
        self._ancestors: dict[str, str] = {}  # id -> source, of kernels to which plans return

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """Up to `count` distinct plans: a menu option at a place, often with further steps.

        A third of the plans start from an ancestor of the parent if that promises a better kernel,
        so that an early choice can be changed. If nothing better was found for some iterations, all
        plans are random sequences of untried steps. Five of six plans for the starting kernel begin
        with its naive loop nest, if this is another kernel.
        """
        return list(self.each_plan(brief, parent, history, count, seed))

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan]:
        """The plans of `plan`, each as soon as it is made. Plans that take little time are first.

        The first kernel is then measured while longer plans are still being made.
        """
        machine = Machine.of(brief.target)
        try:
            kernel = read(parent.candidate.source, machine)
        except InputError:
            return
        rng = random.Random(f"plan {seed}")
        before = _before(parent, kernel, machine)
        yield from plans_of_schedule(brief, parent, kernel, machine, before, rng, NAME)
        nests = self._nests_of_start(brief, parent, kernel, history) if count else iter(())
        first = next(nests, None)
        if first is not None and not first.steps:  # the starting kernel, unless there is another
            second = next(nests, None)
            first, nests = (first, iter([second])) if second is not None else (None, iter(()))
        if first is not None:
            given = count // GIVEN
            anew = self._plans_anew(brief, parent, history, first, nests, count - given, rng)
            for plan in itertools.islice(anew, 1):  # the nest itself takes least time
                yield plan
                count -= 1
            for plan in self._plans_as_given(brief, parent, history, given, rng):
                yield plan
                count -= 1
            yield from itertools.islice(anew, count)
            return
        menu = brief.target.menu_for(brief.workload)
        if not any(t.candidate.plan for t in history) and count:
            for draft in itertools.islice(
                whole_drafts(kernel, machine, menu, brief.offered()), count
            ):
                yield _plan(parent, draft, before)
                count -= 1
        if is_stale(parent, history, brief.iteration):
            tried = tried_from(parent, history)  # the whole menu: no dropout is needed
            walks = random_walk(kernel, machine, menu, tried, count, rng)
            yield from (_plan(parent, draft, before) for draft in walks)
            return
        plans = self._plans_from_ancestor(brief, parent, history, count // 3, before, rng)
        more = count - len(plans)
        long = MOST_LONG if _keeps_given_schedule(parent, history) else None
        offered = brief.offered()
        drafts = draw(kernel, machine, offered, parent, history, more, rng, most_long=long)
        yield from (*(_plan(parent, draft, before) for draft in drafts), *plans)

    def _plans_as_given(
        self,
        brief: Brief,
        parent: Trial,
        history: History,
        count: int,
        rng: random.Random,
    ) -> Iterator[Plan]:
        """Plans that keep the schedule of a tuned starting kernel, the one with the best estimate
        first.

        They consist of a few steps, each the best of a sample, because rewriting such a schedule
        takes long.
        """
        machine, offered = Machine.of(brief.target), brief.offered()
        kernel = read(parent.candidate.source, machine)
        before = _before(parent, kernel, machine)
        menu = brief.target.menu_for(brief.workload)  # complete: made only once
        if passes_through_memory(kernel, machine):
            drafts = list(itertools.islice(whole_drafts(kernel, machine, menu, offered), count))
        else:
            drafts = quick_drafts(kernel, machine, menu, offered, rng)[:count]
        yield from (_plan(parent, draft, before) for draft in drafts)
        if more := count - len(drafts):
            drawn = draw(kernel, machine, offered, parent, history, more, rng, most_long=0)
            yield from (_plan(parent, draft, before) for draft in drawn)

    def _plans_from_ancestor(
        self,
        brief: Brief,
        parent: Trial,
        history: History,
        count: int,
        before: Cost,
        rng: random.Random,
    ) -> list[Plan]:
        ancestors = _ancestors(parent, history)
        if not ancestors or not count:
            return []
        ancestor, machine = rng.choice(ancestors), Machine.of(brief.target)
        try:
            kernel = read(ancestor.candidate.source, machine)
        except InputError:
            return []
        self._ancestors[ancestor.candidate.id] = ancestor.candidate.source
        drafts = draw(kernel, machine, brief.offered(), ancestor, history, count, rng, 2 * LONGEST)
        plans = [_plan(parent, draft, before, ancestor) for draft in drafts]
        return [plan for plan in plans if (plan.expected_gain or 0) > 1]

    def _nests_of_start(
        self, brief: Brief, parent: Trial, kernel: Kernel, history: History
    ) -> Iterator[Draft]:
        """The naive loop nests of the starting kernel, once in a run: the nest itself, and the one
        whose products read earlier results in local memory.

        A nest without steps is the starting kernel, if this is itself naive. A nest in which a
        recurrence is written out step by step is left out, because rewriting it takes long.
        """
        machine, offered = Machine.of(brief.target), brief.offered()
        if parent.candidate.parent_id is not None or not offered:
            return
        if any(t.candidate.plan is not None and t.candidate.plan.begins_anew for t in history):
            return
        for step in (Step(RAISE), Step(CHAIN)):
            try:
                nest = step.apply(kernel, machine)
            except (InputError, NotApplicable):
                continue
            if _is_written_out(nest, kernel, machine):
                continue
            given = are_alike(nest, kernel, machine)
            steps, start = ((), kernel) if given else ((step,), nest)
            yield Draft(offered[0], steps, start, estimate(start, machine))

    def _plans_anew(
        self,
        brief: Brief,
        parent: Trial,
        history: History,
        first: Draft,
        others: Iterator[Draft],
        count: int,
        rng: random.Random,
    ) -> Iterator[Plan]:
        """The first naive loop nest of the starting kernel, and schedules made from its nests in
        turn. A nest whose products read earlier results is only proposed with a schedule."""
        offered, machine = brief.offered(), Machine.of(brief.target)
        before = _before(parent, read(parent.candidate.source, machine), machine)
        menu = brief.target.menu_for(brief.workload)  # complete: made only once

        def begun(nest: Draft) -> Iterator[Draft]:
            yield from [nest] if nest is first and nest.steps else []
            whole = 0
            for draft in whole_drafts(nest.kernel, machine, menu, offered):
                whole += 1
                yield draft
            more = max(0, count - 1 - whole)
            for draft in draw(nest.kernel, machine, menu, parent, history, more, rng, 2 * LONGEST):
                yield replace(draft, option=option_of(draft.steps, offered))

        def from_start(nest: Draft) -> Iterator[Draft]:
            for draft in begun(nest):
                more = () if draft is nest else draft.steps
                yield replace(draft, steps=(*nest.steps, *more))

        def in_turn() -> Iterator[Draft]:
            drafts = from_start(first)
            yield from itertools.islice(drafts, 1)
            for group in itertools.zip_longest(drafts, *map(from_start, others)):
                yield from (draft for draft in group if draft is not None)

        for draft in in_turn():
            yield _plan(parent, draft, before, anew=True)

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """The kernel of the plan, and variants with one further step; no variants for instances of
        templates and for whole schedules."""
        machine = Machine.of(brief.target)
        try:
            base = str(plan.parameters.get("base", ""))
            source = self._ancestors.get(base, "") if base else parent.candidate.source
            start = kernel = read(source, machine)
            for text in str(plan.parameters.get("steps", "")).split("; "):
                kernel = Step.parse(text).apply(kernel, machine)
        except (InputError, NotApplicable, ValueError):
            return []
        rng = random.Random(f"implement {seed}")
        found = {} if same_kernel(kernel, start) else {emit(kernel): plan}
        for _ in range(0 if plan.is_instance or plan.is_reused else 2 * (count - 1)):
            more, variant = extended((), kernel, machine, rng, 1)
            source = emit(variant)
            if source not in found and len(found) < count:
                sentences = [step.sentence for step in more]
                found[source] = lengthened(plan, [str(step) for step in more], sentences)
        made = list(found.items())[:count]
        return [Candidate(s, parent.candidate.id, p, self.name) for s, p in made]

    def factors(self, target: TargetBrief, kernel: Trial, history: History) -> StepFactors | None:
        """The numbers in the steps that led to a kernel: tiles, slots, unrolled iterations."""
        steps = NumberedSteps(Machine.of(target))
        found = step_factors(steps, kernel, history, self.name)
        for plan in found.plans.values() if found is not None else ():
            base = history.get(str(plan.parameters["base"]))
            if base is not None:
                self._ancestors[base.candidate.id] = base.candidate.source
        return found

    def left_alone(self, target: TargetBrief, source: str, workload: Workload) -> list[LeftAlone]:
        """The unrecognised code; the whole kernel if it cannot be read."""
        try:
            return left_alone(source, Machine.of(target))
        except InputError as error:
            return [LeftAlone(1, "the whole kernel", str(error).rstrip("."))]

    def normalize(self, source: str, target: TargetBrief) -> str:
        """The source without comments, layout and names of local variables."""
        return canonical_text(source, Machine.of(target), target.language.normal_form)


def _keeps_given_schedule(parent: Trial, history: History) -> bool:
    """Whether a kernel has the schedule of a starting kernel whose naive loop nest the run also
    develops."""
    nests = any((p := t.candidate.plan) and p.begins_anew for t in history)
    lineage = history.lineage(parent.candidate.id)
    return nests and not any((p := t.candidate.plan) and p.begins_anew for t in lineage)


def _is_written_out(nest: Kernel, kernel: Kernel, machine: Machine) -> bool:
    """Whether a loop of a kernel that loads what it stored is no loop in the nest.

    A long nest that loads nothing that it stored has parts of several shapes, such as the borders
    of an image.
    """
    number, given = (len(list(commands(k.body))) for k in (nest, kernel))
    return (
        number > MOST_LONGER * given
        and passes_through_memory(kernel, machine)
        and loads_what_it_stores(nest, machine)
    )


def _ancestors(parent: Trial, history: History) -> list[Trial]:
    """The kernels that led to this one. For a kernel that began again, these are the naive loop
    nest and its successors."""
    lineage = history.lineage(parent.candidate.id)
    begun = [n for n, t in enumerate(lineage) if (p := t.candidate.plan) and p.begins_anew]
    if not begun:
        return lineage[:-1]
    nest = [
        t for t in history if (p := t.candidate.plan) and p.parameters.get("steps") == RAISE
    ]  # it precedes the kernels made from it
    return [t for t in (*nest[:1], *lineage[begun[-1] :]) if t.candidate != parent.candidate]


def _before(parent: Trial, kernel: Kernel, machine: Machine) -> Cost:
    """The estimate of a plan's parent. Cycles that its commands do not explain are those of its
    unrecognised code."""
    cost, outcome = estimate(kernel, machine), parent.outcome
    if not (isinstance(outcome, Measured) and outcome.unit == "cycles"):
        return cost
    unread = outcome.latency - cost.total
    return cost.with_unread(unread) if unread > 0 and has_opaque(kernel.body) else cost


def _plan(
    parent: Trial,
    draft: Draft,
    before: Cost,
    ancestor: Trial | None = None,
    *,
    anew: bool = False,
) -> Plan:
    text = "; then ".join(s.sentence for s in draft.steps)
    parameters: dict[str, str | int] = {"steps": "; ".join(str(s) for s in draft.steps)}
    if anew:
        parameters["anew"] = 1
    if ancestor is not None:
        text = f"go back to trial {ancestor.index} and from there {text}"
        parameters["base"] = ancestor.candidate.id
    cost = draft.cost.with_unread(before.unread) if has_opaque(draft.kernel.body) else draft.cost
    expected = changes(before, cost)
    saving = (
        f". This should save {expected[0].saving}" if expected and expected[0].saved > 0 else ""
    )
    return Plan(
        parent_id=parent.candidate.id,
        option=draft.option.id,
        text=text[0].upper() + text[1:] + saving + ".",
        proposer=NAME,
        parameters=parameters,
        expected=described(expected),
        expected_gain=gain(before, cost),
        estimated=parts(cost),
    )
