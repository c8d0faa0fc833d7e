"""Draws plans: short sequences of steps with a good static estimate."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.core.records import History, Measured, MenuOption, Trial
from tilewright.proposers.descent import descended
from tilewright.proposers.learning import Evidence, evidence
from tilewright.proposers.rewriter.estimate.cost import Cost, estimate
from tilewright.proposers.rewriter.ir import (
    Assign,
    Body,
    Kernel,
    Loop,
    arrays_of,
    children,
    commands,
    walk,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.catalogue import CATALOGUE
from tilewright.proposers.rewriter.planning.steps import Step, steps_for

FOLLOW_UPS: Mapping[str, float] = {
    "block-load": 3,
    "resident": 3,
    "pipeline": 3,
    "overwrite": 3,
    "double-accumulator": 3,
    "banks": 2,
    "interleave": 2,
    "stagger": 2,
    "widen": 1,
    "reorder": 1,
    "double-buffer": 1,
    "settings": 1,
}
"""Techniques that may complete a plan after its first step, and their relative frequencies."""
SERIAL_FOLLOW_UPS: Mapping[str, float] = {
    "offload": 4,
    "forward": 3,
    "transpose": 3,
    "carry": 3,
    "hoist-loads": 3,
    "fences": 3,
    "share": 2,
    "own-rows": 1,
    "early-loads": 1,
    "settings": 1,
    "dead-code": 1,
}
"""The same for kernels that load data that they stored, or whose core computes on arrays."""
DEEP = ("retile", "keep-operand", "reuse", "unroll", "pack")
"""Techniques that are useful in a long plan, in addition to those that complete a short one."""
FILLS, UNFILLED = "keep-operand", 60.0
"""The technique for products that do not fill the array. It is chosen more often, the more of the
array's time such products leave unused: a tenth makes it seven times as likely."""
DEEPEST = 12
"""Number of steps of a long plan. Half of the plans of each draw are long; for straight-line code,
only one plan is."""
LONGEST = 3
"""Number of steps of the longest plan. A plan that returns to an ancestor may be twice as long."""
POOL = 2
"""Number of drafts for each requested plan, of which the most promising ones are kept."""
SAMPLE = 10
"""Number of steps that are compared before one is taken. The best of ten is among the best fifth in
nine of ten cases."""
ATTEMPTS = 4
"""Number of draws for a follow-up step before a draft stays unchanged."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A sequence of steps for one menu option, the resulting kernel, and its estimate."""

    option: MenuOption
    steps: tuple[Step, ...]
    kernel: Kernel
    cost: Cost


def draw(
    kernel: Kernel,
    machine: Machine,
    menu: Sequence[MenuOption],
    parent: Trial,
    history: History,
    count: int,
    rng: random.Random,
    longest: int = LONGEST,
    *,
    most_long: int | None = None,
) -> list[Draft]:
    """Up to `count` distinct drafts for options of the menu.

    Options are drawn by Thompson sampling of their gains in this run, multiplied by the urgency
    that the parent's measurement gives them. Of the drafts, those with the lowest estimates are
    kept, and one random draft, so that the estimate never decides alone. Half of them are long, or
    `most_long`.
    """
    learned = evidence(history)
    urgent = {o.id: urgency(parent, o.technique) for o in menu}
    now = estimate(kernel, machine)
    for option in menu:
        if option.technique == FILLS and now.array:  # no measurement distinguishes it from work
            urgent[option.id] += UNFILLED * now.unfilled / now.array
    pool: dict[tuple[Step, ...], Draft] = {}
    openers = {o.id: shuffled(kernel, machine, o.technique, rng) for o in menu if o.technique}
    while len(pool) < POOL * count and openers:
        option = max(
            (o for o in menu if o.id in openers),
            key=lambda o: learned.get(o.id, Evidence()).sampled_value(rng) * urgent[o.id],
        )
        first = next(openers[option.id], None)
        if first is None:
            del openers[option.id]
            continue
        steps, after = extended((first[0],), first[1], machine, rng, rng.randrange(longest))
        pool.setdefault(steps, Draft(option, steps, after, estimate(after, machine)))
    serial, moves = passes_through_memory(kernel, machine), _moves(kernel, machine, menu)
    long_ones = 1 if serial else -(-count // 2)
    if most_long is not None:
        long_ones = min(long_ones, most_long)
    for start in rng.sample(list(pool.values()), min(len(pool), long_ones)):
        steps, after = descended(moves, start.steps, start.kernel, rng, DEEPEST, SAMPLE)
        pool.setdefault(steps, Draft(start.option, steps, after, estimate(after, machine)))
    ranked = sorted(pool.values(), key=lambda d: d.cost.total)
    kept = ranked[: max(0, count - 1)]
    rest = ranked[len(kept) :]
    return kept + rng.sample(rest, min(len(rest), count - len(kept)))


def completed(
    steps: tuple[Step, ...],
    kernel: Kernel,
    machine: Machine,
    menu: Sequence[MenuOption],
    rng: random.Random,
) -> tuple[tuple[Step, ...], Kernel]:
    """Steps of another kernel's schedule, with those that the estimate adds for this kernel."""
    moves = _moves(kernel, machine, menu)
    return descended(moves, steps, kernel, rng, len(steps) + DEEPEST, SAMPLE)


def _moves(kernel: Kernel, machine: Machine, menu: Sequence[MenuOption]) -> StepMoves:
    known = {o.technique for o in menu if o.technique}
    serial = passes_through_memory(kernel, machine)
    return StepMoves(
        machine, sorted(known | set(SERIAL_FOLLOW_UPS if serial else (*FOLLOW_UPS, *DEEP)))
    )


def extended(
    steps: tuple[Step, ...], kernel: Kernel, machine: Machine, rng: random.Random, more: int
) -> tuple[tuple[Step, ...], Kernel]:
    """The steps with up to `more` further steps that apply and that the estimate does not
    reject."""
    likely = SERIAL_FOLLOW_UPS if passes_through_memory(kernel, machine) else FOLLOW_UPS
    for _ in range(more):
        current = estimate(kernel, machine).total
        for _ in range(ATTEMPTS):
            technique = rng.choices(list(likely), list(likely.values()))[0]
            found = next(shuffled(kernel, machine, technique, rng), None)
            if found is not None and estimate(found[1], machine).total <= current:
                steps, kernel = (*steps, found[0]), found[1]
                break
    return steps, kernel


def urgency(parent: Trial, technique: str) -> float:
    """A number from 1 to 4 that grows with the share of the parent's cycles lost to causes that a
    technique relieves."""
    outcome = parent.outcome
    if not isinstance(outcome, Measured) or technique not in CATALOGUE:
        return 1.0
    relieved = CATALOGUE[technique].relieves
    lost = sum(v for k, v in outcome.breakdown.items() if relieved & set(k.split("_")))
    return 1.0 + 3.0 * min(1.0, lost / outcome.latency)


def passes_through_memory(kernel: Kernel, machine: Machine) -> bool:
    """Whether some loop loads data that it stores, or the core itself computes on arrays.

    It is false if one loop nest stores data that another one loads, because each nest is then an
    ordinary product. What the core computes before the first command passes through memory once.
    """
    issuing = (n for n, s in enumerate(kernel.body) if any(True for _ in commands((s,))))
    if any(isinstance(s, Assign) for s in walk(kernel.body[next(issuing, 0) :])):
        return True
    nests = [s for s in kernel.body if any(isinstance(t, Loop) for t in children(s))]
    loops = [_moved((s,), machine) for s in nests]
    rest = _moved(tuple(s for s in kernel.body if s not in nests), machine)
    return any(
        (stored | rest[0]) & (loaded | rest[1])
        for stored, loaded in [*loops, (set[str](), set[str]())]
    )


def loads_what_it_stores(kernel: Kernel, machine: Machine) -> bool:
    """Whether a kernel loads an array that it also stores."""
    stored, loaded = _moved(kernel.body, machine)
    return bool(stored & loaded)


def _moved(body: Body, machine: Machine) -> tuple[set[str], set[str]]:
    """The arrays that some code both stores and loads."""
    moved: dict[str, set[str]] = {"store": set(), "load": set()}
    for command in commands(body):
        if machine.unit(command.name) in moved:
            moved[machine.unit(command.name)] |= arrays_of(command)
    return moved["store"], moved["load"]


def shuffled(
    kernel: Kernel, machine: Machine, technique: str, rng: random.Random
) -> Iterator[tuple[Step, Kernel]]:
    """Places at which a technique applies, in random order. They are found only when requested."""
    steps = list(steps_for(kernel, machine, technique))
    rng.shuffle(steps)
    for step in steps:
        after = step.carried_out(kernel, machine)
        if after is not None:
            yield step, after


class StepMoves:
    """Implements the `Moves` role: steps of some techniques on one machine."""

    def __init__(self, machine: Machine, techniques: Sequence[str]) -> None:
        self._machine = machine
        self._techniques = techniques

    def places(self, kernel: Kernel) -> Mapping[str, list[Step]]:
        """All places at which the techniques may apply."""
        return {name: list(steps_for(kernel, self._machine, name)) for name in self._techniques}

    def carried_out(self, kernel: Kernel, step: Step) -> Kernel | None:
        """The kernel after a step, or None."""
        return step.carried_out(kernel, self._machine)

    def cost(self, kernel: Kernel) -> float:
        """The estimate in cycles."""
        return estimate(kernel, self._machine).total
