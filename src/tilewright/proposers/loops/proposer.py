"""Plans and candidates for plain C loop nests, without any model."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilewright.core.errors import InputError
from tilewright.core.records import (
    Brief,
    Candidate,
    History,
    LeftAlone,
    MenuOption,
    Plan,
    TargetBrief,
    Trial,
)
from tilewright.proposers.loops.analysis import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Kernel, loops
from tilewright.proposers.loops.parse import UnsupportedError
from tilewright.proposers.loops.reading import lanes_of, read_kernel
from tilewright.proposers.loops.steps import TECHNIQUES, Step, steps_of
from tilewright.proposers.normal_form import normal_form

_FOLLOW_UPS: Mapping[str, float] = {
    "vectorise": 4, "accumulators": 2, "jam": 2, "reciprocal": 2,
}  # fmt: skip
"""Techniques that may complete a plan after its first step, and how often they are drawn."""
LONGEST = 5
"""Steps of the longest drawn plan; every call also makes one that vectorises all it can."""
MOST_LOOPS = 64
"""A kernel of more loops is not rewritten further: its code has left the first-level cache."""


class LoopProposer:
    """Draws sequences of rewrites; deterministic for a seed. `name` is what its plans carry."""

    def __init__(self, name: str) -> None:
        self.name = name

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """Up to `count` distinct plans, each beginning with an option of the menu."""
        try:
            kernel = read_kernel(parent.candidate.source, brief.target)
        except InputError:
            return []
        rng, lanes = random.Random(f"plan {seed}"), lanes_of(brief.target)
        found: dict[str, Plan] = {}
        for attempt in range(4 * count):
            option_and_step = _first(kernel, brief.menu, lanes, rng)
            if option_and_step is None or len(found) == count:
                break
            option, step, after = option_and_step
            steps = [(step, kernel)]
            if attempt == 0:
                after = _everything(after, lanes, steps)
            _extend(after, lanes, rng, rng.randrange(LONGEST), steps)
            plan = self._plan(parent, option, steps)
            found.setdefault(str(plan.parameters["steps"]), plan)
        return list(found.values())

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """The plan's steps, and variants that go one step further."""
        try:
            kernel = read_kernel(parent.candidate.source, brief.target)
            for text in str(plan.parameters.get("steps", "")).split("; "):
                kernel = Step.parse(text).apply(kernel)
        except (InputError, NotApplicableError, ValueError):
            return []
        rng, lanes = random.Random(f"implement {seed}"), lanes_of(brief.target)
        made = {emit(kernel): plan}
        for _ in range(2 * (count - 1)):
            more: list[tuple[Step, Kernel]] = []
            variant = _extend(kernel, lanes, rng, 1, more)
            longer = "; ".join([str(plan.parameters["steps"]), *(str(s) for s, _ in more)])
            parameters = {**plan.parameters, "steps": longer}
            made.setdefault(emit(variant), replace(plan, parameters=parameters))
        kept = list(made.items())[:count]
        return [Candidate(s, parent.candidate.id, p, self.name) for s, p in kept]

    def left_alone(self, target: TargetBrief, source: str) -> list[LeftAlone]:
        """The first line that is not understood: the kernel is then left alone as a whole."""
        try:
            read_kernel(source, target)
        except UnsupportedError as error:
            text = source.splitlines()[error.line - 1].strip() if source else ""
            return [LeftAlone(error.line, text, error.what)]
        return []

    def normalize(self, source: str) -> str:
        """Comments and white space removed."""
        return normal_form(source)

    def _plan(
        self, parent: Trial, option: MenuOption, steps: Sequence[tuple[Step, Kernel]]
    ) -> Plan:
        text = "; then ".join(step.sentence(kernel) for step, kernel in steps)
        return Plan(
            parent_id=parent.candidate.id,
            option=option.id,
            text=f"{text[0].upper()}{text[1:]}.",
            proposer=self.name,
            parameters={"steps": "; ".join(str(step) for step, _ in steps)},
        )


def _first(
    kernel: Kernel, menu: Sequence[MenuOption], lanes: int, rng: random.Random
) -> tuple[MenuOption, Step, Kernel] | None:
    """A random place of a random option that applies."""
    options = [o for o in menu if o.technique in TECHNIQUES]
    rng.shuffle(options)
    for option in options:
        found = _drawn(kernel, option.technique, lanes, rng)
        if found is not None:
            return option, *found
    return None


def _drawn(
    kernel: Kernel, technique: str, lanes: int, rng: random.Random
) -> tuple[Step, Kernel] | None:
    if len(loops(kernel)) > MOST_LOOPS:
        return None
    found = list(steps_of(kernel, technique, lanes))
    return rng.choice(found) if found else None


def _extend(
    kernel: Kernel, lanes: int, rng: random.Random, more: int, steps: list[tuple[Step, Kernel]]
) -> Kernel:
    """The kernel after up to `more` further steps, which are appended with what they change."""
    for _ in range(more):
        technique = rng.choices(list(_FOLLOW_UPS), list(_FOLLOW_UPS.values()))[0]
        found = _drawn(kernel, technique, lanes, rng)
        if found is not None:
            steps.append((found[0], kernel))
            kernel = found[1]
    return kernel


def _everything(kernel: Kernel, lanes: int, steps: list[tuple[Step, Kernel]]) -> Kernel:
    """The kernel with every loop vectorised that can be, the innermost first, and reciprocals."""
    for technique in ("vectorise", "reciprocal"):
        while len(loops(kernel)) <= MOST_LOOPS:
            found = list(steps_of(kernel, technique, lanes))
            if not found:
                break
            steps.append((found[-1][0], kernel))
            kernel = found[-1][1]
    return kernel
