"""Sequences that combine all helpful techniques for a kernel.

A recurrence needs steps that random choices rarely combine, and some of them make the kernel slower
alone. For example, results stay in local memory only after the core computes nothing on them, and
copies between steps disappear only after nothing else is moved. Sequences for tiled products
overlap all moves (`overlapped.py`), or repeatedly take the step with the best estimate of all
places. Random steps find the best tile, the operand to keep, and evenly distributed early moves
only after many trials.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence, Set

from tilewright.core.records import MenuOption
from tilewright.proposers.descent import descended
from tilewright.proposers.rewriter.analysis.ranges import labelled_loops
from tilewright.proposers.rewriter.estimate.cost import estimate
from tilewright.proposers.rewriter.ir import Kernel, Loop, commands, is_core_loop, same_kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.overlapped.chains import chained_sequences
from tilewright.proposers.rewriter.planning.overlapped.products import sequences_of_products
from tilewright.proposers.rewriter.planning.overlapped.sequences import overlapped_sequences
from tilewright.proposers.rewriter.planning.parameters import all_unroll_factors
from tilewright.proposers.rewriter.planning.planner import (
    FOLLOW_UPS,
    LONGEST,
    SAMPLE,
    SERIAL_FOLLOW_UPS,
    Draft,
    StepMoves,
    passes_through_memory,
)
from tilewright.proposers.rewriter.planning.steps import Step, steps_for

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
"""Techniques in an order in which each creates opportunities for the following ones.

Signs are moved to matrices before vectors become rows, because a row can then be passed on
unchanged.
"""
MOST = 16
"""Maximum number of places of one technique that a sequence uses."""

TILES = ("keep-operand", "retile")
"""Techniques that begin a sequence for tiled products, one for each sequence."""
UNROLL = "unroll"
COALESCE = "coalesce"
"""The technique that merges the loops around tiles into one loop."""
_SIZES, _WORDS = ("reuse", UNROLL, "simplify"), ("pack",)
_PLACES = ("interleave", "stagger", "banks", "widen", "double-buffer")
TILED = (
    (
        ("overwrite",),
        (COALESCE,),
        ("block-load",),
        ("resident", "stagger", "pipeline", "double-accumulator"),
        *(_SIZES, _PLACES, _WORDS),
    ),
    (
        ("overwrite", "block-load", "resident"),
        (COALESCE,),
        ("stagger", "pipeline", "double-accumulator"),
        *(_SIZES, _PLACES, _WORDS),
    ),
    (
        ("overwrite", "block-load", "resident", "pipeline", "double-accumulator"),
        *(_SIZES, _PLACES, _WORDS),
    ),
)
"""Techniques that continue such a sequence, in each of these orders. The next group begins when no
technique of the current one saves time.

The choice of what is loaded and when comes first, because each choice there excludes others.
Addresses and words come last, because they hide the patterns that other techniques need. If the
loops around tiles are one loop, moves that are issued ahead of a tile continue across rows of
tiles.
"""
IN_BURSTS = ("stagger", "pipeline", "double-accumulator")
"""Techniques that issue many moves at once."""
WORTH = 0.9995
"""Maximum estimate after a step that is taken, as a share of the estimate before."""
MOST_TRIED = 300
"""Number of steps that are tried for one sequence, which takes some seconds."""


def whole_drafts(
    kernel: Kernel, machine: Machine, menu: Sequence[MenuOption], offered: Sequence[MenuOption]
) -> Iterator[Draft]:
    """The complete sequences for a kernel of this kind, which use only options of the menu.

    Each counts as a plan for one of the offered options; without options there are none.
    """
    if not offered:
        return
    serial = passes_through_memory(kernel, machine)
    usual = SERIAL_FOLLOW_UPS if serial else FOLLOW_UPS
    known = {*usual, *(o.technique for o in menu if o.technique)}
    for steps, after in (sequences if serial else product_sequences)(kernel, machine, known):
        if UNROLL in known:
            more, after = _core_unrolled(after, machine)
            steps += more
        yield Draft(option_of(steps, offered), steps, after, estimate(after, machine))


def _core_unrolled(kernel: Kernel, machine: Machine) -> tuple[tuple[Step, ...], Kernel]:
    """Unrolls all loops of the core's code, which other steps leave as they are."""
    steps: list[Step] = []
    for label, loop, above in labelled_loops(kernel.body):
        factors = all_unroll_factors(loop, above) if is_core_loop(loop) else []
        if factors and not loop.hint:
            steps.append(Step(UNROLL, (label, str(factors[0]))))
            kernel = steps[-1].apply(kernel, machine)
    return tuple(steps), kernel


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


def product_sequences(
    kernel: Kernel, machine: Machine, offered: Set[str]
) -> Iterator[tuple[tuple[Step, ...], Kernel]]:
    """Sequences for tiled products: first with all moves overlapped, for several products for each
    of them alone, then by the best step of all places."""
    given: list[Kernel] = []
    finders = (chained_sequences, sequences_of_products, overlapped_sequences, tiled_sequences)
    for find in finders:
        for steps, after in find(kernel, machine, offered):
            if not any(same_kernel(after, other) for other in given):
                given.append(after)
                yield steps, after


def tiled_sequences(
    kernel: Kernel, machine: Machine, offered: Set[str]
) -> Iterator[tuple[tuple[Step, ...], Kernel]]:
    """Sequences for tiled products: for each order, one that begins with each way to enlarge
    tiles."""
    given: list[Kernel] = []
    for order in TILED:
        for first in TILES:
            groups = [[t for t in group if t in offered] for group in ((first,), *order)]
            steps, after = _best_steps(kernel, machine, groups)
            if steps and not any(same_kernel(after, other) for other in given):
                given.append(after)
                yield steps, after


def _coalesced(kernel: Kernel, machine: Machine) -> tuple[tuple[Step, ...], Kernel]:
    """Merges every two loops around tiles, from the innermost pair outwards. This saves nothing
    alone."""
    for label, loop, _ in reversed(labelled_loops(kernel.body)):
        inner = loop.body[0]
        around_tiles = isinstance(inner, Loop) and len(inner.body) > 1
        stores = any(machine.unit(c.name) == "store" for c in commands(loop.body))
        step = Step(COALESCE, (label,))
        after = step.carried_out(kernel, machine) if stores and around_tiles else None
        if after is not None:
            more, after = _coalesced(after, machine)
            return (step, *more), after
    return (), kernel


def sequences(
    kernel: Kernel, machine: Machine, offered: Set[str]
) -> Iterator[tuple[tuple[Step, ...], Kernel]]:
    """The steps of each sequence of `offered` techniques, and the resulting kernel."""
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
    """Applies each technique in turn wherever it changes something."""
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
    """For each group in turn, the step with the lowest estimate, as long as one saves time."""
    steps: list[Step] = []
    tried, now = 0, estimate(kernel, machine).total
    for group in groups:
        if COALESCE in group:
            more, kernel = _coalesced(kernel, machine)
            steps += more
            now = estimate(kernel, machine).total
        better = COALESCE not in group
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
    """A step, and if it moves loads or stores, also the step followed by distributing these among
    the products.

    Many moves at once save nothing alone, because the core waits until all of them have been
    issued.
    """
    after = step.carried_out(kernel, machine)
    if after is None:
        return
    yield (step,), after
    if step.technique not in IN_BURSTS:
        return
    for more in steps_for(after, machine, "interleave"):
        distributed = more.carried_out(after, machine)
        if distributed is not None:
            yield (step, more), distributed
