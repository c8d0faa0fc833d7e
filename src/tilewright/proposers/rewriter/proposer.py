"""The built-in proposer: plans by drawing menu options that apply, implements them by rewriting."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tilewright.core.errors import InputError
from tilewright.core.records import Brief, Candidate, History, MenuOption, Plan, TargetBrief, Trial
from tilewright.proposers.rewriter.analysis import simplify
from tilewright.proposers.rewriter.buffers import NotApplicable
from tilewright.proposers.rewriter.canonical import canonical_text
from tilewright.proposers.rewriter.catalogue import Step, steps_for
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.lift import lift
from tilewright.proposers.rewriter.machine import Machine

NAME = "builtin"
FOLLOW_UPS = ("widen", "overwrite", "banks", "block-load", "resident", "pipeline",
              "double-accumulator")
"""Techniques that may complete a plan, whatever its first step is."""


class RewriterProposer:
    """Writes candidates without any model; deterministic for a seed."""

    name = NAME

    def __init__(self) -> None:
        self._machine: tuple[TargetBrief, Machine] | None = None

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """Up to `count` distinct plans: a menu option at a place, often with follow-up steps."""
        machine = self._machine_of(brief)
        try:
            kernel = _lifted(parent.candidate.source, machine)
        except InputError:
            return []
        rng = random.Random(f"plan {seed}")
        first = [(option, step, after) for option in brief.menu if option.technique
                 for step, after in _applicable(kernel, machine, option.technique)]
        plans: dict[str, Plan] = {}
        for option, step, after in rng.sample(first, len(first)):
            steps = _completed([step], after, machine, rng)
            plan = _plan(parent, option, steps)
            plans.setdefault(plan.id, plan)
            if len(plans) == count:
                break
        return list(plans.values())

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """The plan's steps, and variants that go one follow-up step further."""
        machine = self._machine_of(brief)
        try:
            kernel = _lifted(parent.candidate.source, machine)
            for text in str(plan.parameters.get("steps", "")).split("; "):
                kernel = Step.parse(text).apply(kernel, machine)
        except (InputError, NotApplicable, ValueError):
            return []
        rng = random.Random(f"implement {seed}")
        variants = [kernel]
        follow = [after for technique in FOLLOW_UPS
                  for _, after in _applicable(kernel, machine, technique)]
        variants += rng.sample(follow, min(len(follow), count - 1))
        return [Candidate(emit(v), parent.candidate.id, plan, self.name) for v in variants[:count]]

    def normalize(self, source: str) -> str:
        """Comments, layout and names of locals removed."""
        return canonical_text(source, self._machine[1] if self._machine else None)

    def _machine_of(self, brief: Brief) -> Machine:
        if self._machine is None or self._machine[0] is not brief.target:
            self._machine = (brief.target, Machine.of(brief.target))
        return self._machine[1]


def _lifted(source: str, machine: Machine) -> Kernel:
    return simplify(lift(source, machine))


def _applicable(
    kernel: Kernel, machine: Machine, technique: str
) -> list[tuple[Step, Kernel]]:
    """Every place where a technique applies and changes the kernel."""
    before = emit(kernel)
    found = []
    for step in steps_for(kernel, machine, technique):
        try:
            after = step.apply(kernel, machine)
        except NotApplicable:
            continue
        if emit(after) != before:
            found.append((step, after))
    return found


def _completed(
    steps: list[Step], kernel: Kernel, machine: Machine, rng: random.Random
) -> list[Step]:
    """The steps followed by up to two more that apply after them."""
    for _ in range(rng.choice((0, 1, 2))):
        follow = [f for t in FOLLOW_UPS for f in _applicable(kernel, machine, t)]
        if not follow:
            break
        step, kernel = rng.choice(follow)
        steps = [*steps, step]
    return steps


def _plan(parent: Trial, option: MenuOption, steps: Sequence[Step]) -> Plan:
    sentences = "; then ".join(s.sentence for s in steps)
    return Plan(
        parent_id=parent.candidate.id,
        option=option.id,
        text=sentences[0].upper() + sentences[1:] + ".",
        proposer=NAME,
        parameters={"steps": "; ".join(str(s) for s in steps)},
    )

