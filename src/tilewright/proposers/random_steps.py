"""The control arm for the built-in rewriter, which draws its steps at random.

Neither estimates nor measurements influence the choice. All techniques of the menu are equally
likely, and so are all places at which a technique applies. A comparison with the built-in proposer
shows the benefit of its estimates and of its learning.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tilewright.core.errors import InputError
from tilewright.core.records import (
    Brief,
    Candidate,
    History,
    LeftAlone,
    Plan,
    TargetBrief,
    Trial,
    Workload,
)
from tilewright.proposers.builtin import REWRITTEN, BuiltinProposer, has_local_memories, is_nki

NAME = "random"
LONGEST = 4
"""Maximum number of steps of a plan. All numbers of steps are equally likely."""
TRIES = 4
"""Maximum number of draws for each requested plan, because some draws repeat earlier plans."""


@dataclass(frozen=True, slots=True)
class _Rewriter:
    """A kernel in the form of one of the rewriters, with the operations of this rewriter. `places`
    returns the steps of a technique that may apply to a kernel. `carried_out` returns the kernel
    after a step, or None if the step does not apply or changes nothing.
    """

    kernel: Any
    places: Callable[[Any, str], list[Any]]
    carried_out: Callable[[Any, Any], Any | None]

    def drawn(
        self, kernel: Any, techniques: tuple[str, ...], rng: random.Random
    ) -> tuple[str, Any, Any] | None:
        """A random technique that applies, its step, and the kernel after the step; None if no
        technique applies.
        """
        for technique in rng.sample(techniques, len(techniques)):
            places = self.places(kernel, technique)
            for step in rng.sample(places, len(places)):
                after = self.carried_out(kernel, step)
                if after is not None:
                    return technique, step, after
        return None


class RandomProposer:
    """Draws plans from the built-in rewriter's steps. The result depends only on the seed."""

    name = NAME
    parallel = True
    languages = REWRITTEN

    def __init__(self) -> None:
        self._builtin = BuiltinProposer()

    def modules(self, target: TargetBrief) -> list[str]:
        """The module of the target's rewriter."""
        return self._builtin.modules(target)

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """Up to `count` distinct plans of one to `LONGEST` steps."""
        try:
            rewriter = _read(brief, parent.candidate.source)
        except InputError:
            return []
        rng, menu = random.Random(f"plan {seed}"), brief.offered()
        every = tuple(o.technique for o in brief.target.menu_for(brief.workload) if o.technique)
        found: dict[str, Plan] = {}
        for _ in range(TRIES * count):
            kernel, steps, option = rewriter.kernel, list[Any](), ""
            for _ in range(rng.randint(1, LONGEST)):
                techniques = every if option else tuple(o.technique for o in menu if o.technique)
                drawn = rewriter.drawn(kernel, techniques, rng)
                if drawn is None:
                    break
                technique, step, kernel = drawn
                option = option or next(o.id for o in menu if o.technique == technique)
                steps.append(step)
            if steps and len(found) < count:
                text = "; ".join(map(str, steps))
                words = f"At random: {text}."
                plan = Plan(parent.candidate.id, option, words, NAME, parameters={"steps": text})
                found.setdefault(text, plan)
        return list(found.values())

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """The plan's steps, without variants."""
        made = self._builtin.implement(brief, parent, plan, 1, seed)
        return [replace(candidate, proposer=NAME) for candidate in made]

    def left_alone(self, target: TargetBrief, source: str, workload: Workload) -> list[LeftAlone]:
        """The code that the built-in rewriter does not change."""
        return self._builtin.left_alone(target, source, workload)

    def normalize(self, source: str, target: TargetBrief) -> str:
        """The normal form of the target's rewriter."""
        return self._builtin.normalize(source, target)


def create_proposer() -> RandomProposer:
    """The entry point."""
    return RandomProposer()


def _read(brief: Brief, source: str) -> _Rewriter:
    """A kernel in the form of its target's rewriter; `InputError` if this rewriter cannot read the
    kernel.
    """
    target = brief.target
    if is_nki(target):
        from tilewright.proposers.nki.planning import moves, steps
        from tilewright.proposers.nki.reading import kernel as reading
        from tilewright.proposers.nki.reading.values import UnsupportedError

        try:
            kernel = reading.read(source, brief.workload, target.language)
        except UnsupportedError as error:
            raise InputError(error.reason) from error
        return _Rewriter(kernel, steps.possible, moves.carried_out)
    if has_local_memories(target):
        return _of_commands(source, target)
    return _of_loops(source, brief)


def _of_commands(source: str, target: TargetBrief) -> _Rewriter:
    from tilewright.proposers.rewriter.machine import Machine
    from tilewright.proposers.rewriter.planning.steps import steps_for
    from tilewright.proposers.rewriter.reading import read

    machine = Machine.of(target)
    return _Rewriter(
        read(source, machine),
        lambda kernel, technique: list(steps_for(kernel, machine, technique)),
        lambda kernel, step: step.carried_out(kernel, machine),
    )


def _of_loops(source: str, brief: Brief) -> _Rewriter:
    from tilewright.proposers.loops.analysis.changes import NotApplicableError
    from tilewright.proposers.loops.ir import loops
    from tilewright.proposers.loops.planning.full_sequences import MOST_LOOPS, MOST_UNROLLED, length
    from tilewright.proposers.loops.planning.steps import possible
    from tilewright.proposers.loops.reading import lanes_of, read_kernel, threads_of

    target = brief.target
    lanes, threads = lanes_of(target), threads_of(target)

    def carried_out(kernel: Any, step: Any) -> Any | None:
        try:
            after = step.apply(kernel)
        except NotApplicableError:
            return None
        small = len(loops(after)) <= MOST_LOOPS and length(after) <= MOST_UNROLLED
        return after if small and after != kernel else None

    return _Rewriter(
        read_kernel(source, target, brief.workload),
        lambda kernel, technique: possible(kernel, technique, lanes, threads),
        carried_out,
    )
