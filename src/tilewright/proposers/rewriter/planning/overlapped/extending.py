"""Sequences of steps with the kernels that they produce, and ways to extend them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeAlias

from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step, steps_for

Made: TypeAlias = "tuple[tuple[Step, ...], Kernel]"
"""Steps, and the kernel that they produce."""


def each_place(
    made: Made, machine: Machine, techniques: Iterable[str], loops: Collection[str] | None = None
) -> list[Made]:
    """The kernels that some techniques produce at each of their places, or only at those whose
    first argument is the label of one of some loops."""
    steps = [s for technique in techniques for s in steps_for(made[1], machine, technique)]
    chosen = [s for s in steps if loops is None or s.arguments[0] in loops]
    found = [with_steps((step,), made, machine) for step in chosen]
    return [f for f in found if f is not made]


def first_place(made: Made, machine: Machine, technique: str) -> Made:
    """A technique at its first place, if it applies there."""
    return first_way((((s,) for s in steps_for(made[1], machine, technique))), made, machine)


def all_places(made: Made, machine: Machine, technique: str) -> Made:
    """A technique at one place after another, as long as it applies to one."""
    while (after := first_place(made, machine, technique)) is not made:
        made = after
    return made


def first_way(ways: Iterable[tuple[Step, ...]], made: Made, machine: Machine) -> Made:
    """The first of several ways that applies; the unchanged sequence if none does."""
    return next((a for way in ways if (a := with_steps(way, made, machine)) is not made), made)


def with_steps(steps: tuple[Step, ...], made: Made, machine: Machine) -> Made:
    """The sequence with more steps; unchanged unless all of them apply."""
    kernel = made[1]
    for step in steps:
        after = step.carried_out(kernel, machine)
        if after is None:
            return made
        kernel = after
    return (*made[0], *steps), kernel
