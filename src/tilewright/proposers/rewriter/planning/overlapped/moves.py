"""Moves that are issued ahead or delayed, and distributed among the products."""

from __future__ import annotations

from tilewright.proposers.rewriter.analysis.buffers import find_buffers
from tilewright.proposers.rewriter.analysis.ranges import labelled_loops, trips
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.overlapped.extending import Made, first_way, with_steps
from tilewright.proposers.rewriter.planning.overlapped.queries import (
    cycles_of_product,
    label_around_products,
    loop_of_products,
    loops_around,
    products_in_iteration,
)
from tilewright.proposers.rewriter.planning.steps import Step

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
    if around[0] == label_around_products(made[1], machine, tile):
        ways.reverse()
    loop = next(s for label, s, _ in labelled_loops(made[1].body) if label == around[0])
    after = first_way(ways, made, machine)
    return _distributed(after, machine, loop.var) if after is not made else made


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
