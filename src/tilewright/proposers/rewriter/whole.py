"""Sequences that carry out all that helps a kernel at once.

A recurrence needs steps that random ones rarely make together, some of which cost time alone:
results stay in local memory only once the core computes nothing on them, and copies between steps
go only once nothing else moves. Products that leave a part of the array empty take the best step
of all places, by the estimate, again and again: random steps find the best tile and the operand to
keep only after many trials.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence, Set

from tilewright.core.records import MenuOption
from tilewright.proposers.descent import descended
from tilewright.proposers.rewriter.catalogue import Step, steps_for
from tilewright.proposers.rewriter.cost import estimate
from tilewright.proposers.rewriter.ir import Kernel, same_kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planner import (
    FOLLOW_UPS,
    LONGEST,
    SAMPLE,
    SERIAL_FOLLOW_UPS,
    Draft,
    StepMoves,
    passes_through_memory,
)

RECURRENCE = (
    "offload",
    "transpose",
    "share",
    "forward",
    "carry",
    "hoist-loads",
    "fences",
    "dead-code",
    "early-loads",
    "own-rows",
    "widen",
    "pack",
)
"""Techniques in the order in which each finds what the ones before it made possible.

Signs go to matrices before vectors are rows: a row may then be handed on as it is.
"""
MOST = 16
"""Places of one technique that a sequence uses, at most."""

TILES = ("keep-operand", "retile")
"""Techniques that begin a sequence for tiled products, one for each."""
TILED = (
    ("overwrite", "block-load", "resident", "pipeline", "double-accumulator"),
    ("reuse", "unroll", "simplify"),
    ("interleave", "stagger", "banks", "widen", "double-buffer"),
    ("pack",),
)
"""Techniques that go on with it: the next group when none of one saves time any more.

First what is loaded and when, of which each choice rules out others; addresses and words come last,
since they hide from the other techniques what they look for.
"""
WORTH = 0.9995
"""The estimate after a step that is taken, at most, as a share of the one before."""
MOST_TRIED = 300
"""Steps that are tried for one sequence: some seconds."""


def whole_drafts(
    kernel: Kernel, machine: Machine, menu: Sequence[MenuOption], offered: Sequence[MenuOption]
) -> Iterator[Draft]:
    """The sequences for a kernel of its kind, made of what is on the menu.

    Each counts as a plan on one of the options offered; without any there are none. Products that
    fill the array get none: there, the time is better spent on more and shorter plans.
    """
    serial = passes_through_memory(kernel, machine)
    if not (offered and (serial or estimate(kernel, machine).unfilled)):
        return
    usual = SERIAL_FOLLOW_UPS if serial else FOLLOW_UPS
    known = {*usual, *(o.technique for o in menu if o.technique)}
    for steps, after in (sequences if serial else tiled_sequences)(kernel, machine, known):
        yield Draft(option_of(steps, offered), steps, after, estimate(after, machine))


def quick_drafts(
    kernel: Kernel,
    machine: Machine,
    menu: Sequence[MenuOption],
    offered: Sequence[MenuOption],
    rng: random.Random,
) -> list[Draft]:
    """One short sequence of steps, each the best of a few by the estimate; none if none helps."""
    known = sorted({o.technique for o in menu if o.technique})
    steps, after = descended(StepMoves(machine, known), (), kernel, rng, LONGEST, SAMPLE)
    return [Draft(option_of(steps, offered), steps, after, estimate(after, machine))][: len(steps)]


def tiled_sequences(
    kernel: Kernel, machine: Machine, offered: Set[str]
) -> Iterator[tuple[tuple[Step, ...], Kernel]]:
    """For tiled products: a sequence that begins with each way to make tiles larger."""
    given: list[Kernel] = []
    for first in TILES:
        groups = [[t for t in group if t in offered] for group in ((first,), *TILED)]
        steps, after = _best_steps(kernel, machine, groups)
        if steps and not any(same_kernel(after, other) for other in given):
            given.append(after)
            yield steps, after


def sequences(
    kernel: Kernel, machine: Machine, offered: Set[str]
) -> Iterator[tuple[tuple[Step, ...], Kernel]]:
    """The steps of each sequence, made of `offered` techniques, and the kernel after them."""
    given: list[Kernel] = []
    for without in ("", "transpose"):
        order = [t for t in RECURRENCE if t in offered and t != without]
        steps, after = _carried_out(kernel, machine, order)
        if steps and not any(same_kernel(after, other) for other in given):
            given.append(after)
            yield steps, after


def option_of(steps: Sequence[Step], menu: Sequence[MenuOption]) -> MenuOption:
    """The option of the first step that has one, else the first option."""
    found = (o for s in steps for o in menu if o.technique == s.technique)
    return next(found, menu[0])


def _carried_out(
    kernel: Kernel, machine: Machine, techniques: Sequence[str]
) -> tuple[tuple[Step, ...], Kernel]:
    """Each technique in turn, wherever it changes something."""
    steps: list[Step] = []
    for technique in techniques:
        for _ in range(MOST):
            places = steps_for(kernel, machine, technique)
            made = ((s, k) for s in places if (k := s.carried_out(kernel, machine)) is not None)
            step, after = next(made, (None, kernel))
            if step is None:
                break
            steps.append(step)
            kernel = after
    return tuple(steps), kernel


def _best_steps(
    kernel: Kernel, machine: Machine, groups: Sequence[Sequence[str]]
) -> tuple[tuple[Step, ...], Kernel]:
    """Of each group in turn the step with the lowest estimate, for as long as one saves time."""
    steps: list[Step] = []
    tried, now = 0, estimate(kernel, machine).total
    for group in groups:
        better = True
        while better and tried < MOST_TRIED:
            better, best, taken = False, WORTH * now, kernel
            for step in (s for technique in group for s in steps_for(kernel, machine, technique)):
                tried += 1
                for found, after in _with_interleaved(step, kernel, machine):
                    if (cost := estimate(after, machine).total) < best:
                        better, best, taken, chosen = True, cost, after, found
            if better:
                steps += chosen
                kernel, now = taken, best
    return tuple(steps), kernel


def _with_interleaved(
    step: Step, kernel: Kernel, machine: Machine
) -> Iterator[tuple[tuple[Step, ...], Kernel]]:
    """A step, and a prefetch also with its loads distributed among the products.

    A prefetch of many loads saves nothing alone: the core waits until they are all under way.
    """
    after = step.carried_out(kernel, machine)
    if after is None:
        return
    yield (step,), after
    if step.technique == "pipeline":
        more = Step("interleave", step.arguments[1:2])
        distributed = more.carried_out(after, machine)
        if distributed is not None:
            yield (step, more), distributed
