"""Moves that are issued ahead or delayed, and distributed among the products."""

from __future__ import annotations

from tilewright.proposers.rewriter.analysis.buffers import find_buffers
from tilewright.proposers.rewriter.analysis.ranges import labelled_loops, trips
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.overlapped.extending import Made, first_way, with_steps
from tilewright.proposers.rewriter.planning.overlapped.queries import (
    cycles_of_product,
    has_unit,
    label_around_products,
    label_inside,
    loop_of_products,
    loops_around,
    products_in_iteration,
    tile_loops,
)
from tilewright.proposers.rewriter.planning.steps import Step, steps_for

LEAST = 128
"""Minimum cycles of products between two moves, so that they hide the core's time for a move."""
SPREAD = 8
"""Minimum number of iterations among which moves are distributed, if there are as many."""


def delay_stores(made: Made, machine: Machine, tile: str) -> Made:
    """Results are stored one tile later, and their initial values are loaded one tile ahead."""
    for buffer in find_buffers(made[1], machine):
        label = label_around_products(made[1], machine, tile)
        later = Step("double-accumulator", (buffer.name, label, "2", "delayed"))
        after = with_steps((later,), made, machine)
        if after is not made:
            made = _distributed(after, machine, tile)
            made = with_steps((Step("pipeline", (buffer.name, label, "2")),), made, machine)
    return made


def load_ahead(made: Made, machine: Machine, name: str, tile: str) -> Made:
    """Issues loads of a buffer one iteration ahead, also across restarts of a loop inside a
    tile."""
    around = loops_around(made[1], machine, name)
    if not around:
        return made
    ways = [(Step(how, (name, around[0], "2")),) for how in ("pipeline-nest", "pipeline")]
    of_tile = around[0] == label_around_products(made[1], machine, tile)
    loop, above = next(
        (s, above) for label, s, above in labelled_loops(made[1].body) if label == around[0]
    )
    if of_tile and not above:
        ways.reverse()
    after = first_way(ways, made, machine)
    return _distributed(after, machine, loop.var) if after is not made else made


def load_first_tile_late(made: Made, machine: Machine, tile: str) -> Made:
    """The first tile is peeled off, and its data are loaded in parts, one iteration before their
    use. Unchanged if no loads can be moved, or if a tile's first products and its store are in
    different loops.

    The first products then wait for the first part only.
    """
    loops = [label for label, _, _ in tile_loops(made[1], machine)]
    label = label_around_products(made[1], machine, tile)
    if label not in loops:
        return made
    around = loops[: loops.index(label) + 1]
    steps = tuple(Step("peel", (label, "first")) for label in around)
    peeled = after = with_steps(steps, made, machine)
    if peeled is made:
        return made
    moved = True
    while moved:
        moved = False
        for label in _loads_before_products(after[1], machine):
            ways: list[tuple[Step, ...]] = [(Step("stagger", (label,)),)]
            inside = label_inside(after[1], label)
            if inside is not None:
                ways.append((Step("reorder", (label,)), Step("stagger", (inside,))))
            later = first_way(ways, after, machine)
            if later is not after:
                after, moved = later, True
                break
    return made if after is peeled else after


def alternate_results(made: Made, machine: Machine) -> Made:
    """Parts of the results lie in different banks in turn, so that one can be stored while the
    array adds to the next one."""
    results = {
        b.name
        for b in find_buffers(made[1], machine)
        if any(machine.unit(a.command.name) == "store" for a in b.readers)
    }
    places = [
        s for s in steps_for(made[1], machine, "alternate-banks") if s.arguments[0] in results
    ]
    return first_way(((s,) for s in places), made, machine)


def complete_tiles(made: Made, machine: Machine) -> Made:
    """Products directly before the stores of their results complete one tile after the other."""
    places = list(steps_for(made[1], machine, "finish-tiles"))
    return first_way(((s,) for s in reversed(places)), made, machine)


def _loads_before_products(kernel: Kernel, machine: Machine) -> list[str]:
    """The outermost loops that only load, before the first loop of products."""
    found: list[str] = []
    for label, loop, above in labelled_loops(kernel.body):
        if has_unit(loop, machine, "execute"):
            break
        if not above:
            found.append(label)
    return found


def _distributed(made: Made, machine: Machine, variable: str) -> Made:
    """Distributes the moves of a loop among the iterations of its inner loop, and further inwards
    until these are many."""
    iterations = 1.0
    while iterations < SPREAD:
        work = loop_of_products(made[1], machine, variable)
        inside = (found for found in labelled_loops(made[1].body) if found[0] == work)
        _, loop, above = next(inside, ("", None, ()))
        if (
            loop is None
            or products_in_iteration(loop, above, machine) * cycles_of_product(machine) < LEAST
        ):
            break
        label = label_around_products(made[1], machine, variable)
        made = with_steps((Step("interleave", (label,)),), made, machine)
        iterations *= trips(loop, {})[0]
        variable = loop.var
    return made
