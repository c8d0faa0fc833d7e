"""Loops around tiles and products that are merged, and loops that are unrolled."""

from __future__ import annotations

from tilewright.proposers.rewriter.analysis.ranges import env_of, labelled_loops, loops_in, trips
from tilewright.proposers.rewriter.ir import Kernel, Loop, commands
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.overlapped.extending import Made, first_way, with_steps
from tilewright.proposers.rewriter.planning.overlapped.queries import has_unit, loop_of_products
from tilewright.proposers.rewriter.planning.steps import Step, steps_for


def merge_around_products(made: Made, machine: Machine, tile: str) -> Made:
    """Merges the outermost loops around the products of a tile, as long as the result can be
    unrolled completely."""
    label = loop_of_products(made[1], machine, tile)
    after = made if label is None else with_steps((Step("coalesce", (label,)),), made, machine)
    if after is made or _whole(after, machine, tile) is after:
        return made
    return merge_around_products(after, machine, tile)


def _whole(made: Made, machine: Machine, tile: str) -> Made:
    """The kernel with the loop around the products of a tile unrolled; unchanged if it is too
    long."""
    label = loop_of_products(made[1], machine, tile)
    return made if label is None else with_steps((Step("unroll", (label, "0")),), made, machine)


def unroll_products(made: Made, machine: Machine, tile: str) -> Made:
    """Unrolls the loop around the products of a tile if the result fits, otherwise the inner
    loops.

    Where partial last tiles have fewer products, the outer loop stays. Copies of it would only
    repeat a loop that cannot be unrolled, and leave no room for unrolling the loops inside it.
    """
    after = _whole(made, machine, tile)
    if _has_varying_products(after[1], machine, tile):
        after = made
    while after is made:
        whole = [(s,) for s in steps_for(made[1], machine, "unroll") if s.arguments[1] == "0"]
        made = first_way(reversed(whole), made, machine)
        if made is after:
            break
        after = made
    return _partly_unrolled(after, machine)


def _has_varying_products(kernel: Kernel, machine: Machine, tile: str) -> bool:
    """Whether a loop of products inside a tile has fewer iterations in some tiles."""
    for _, loop, above in labelled_loops(kernel.body):
        if has_unit(loop, machine, "execute") and any(s.var == tile for s in loops_in(above)):
            fewest, most = trips(loop, env_of(above))
            if fewest != most:
                return True
    return False


def _partly_unrolled(made: Made, machine: Machine) -> Made:
    """Several iterations of the innermost loop of products as one, as many as fit."""
    loops = labelled_loops(made[1].body)
    inner = [
        label
        for label, loop, _ in loops
        if has_unit(loop, machine, "execute") and not any(isinstance(s, Loop) for s in loop.body)
    ]
    steps = [s for s in steps_for(made[1], machine, "unroll") if s.arguments[0] in inner]
    return first_way(((s,) for s in reversed(steps)), made, machine)


def merge_tile_loops(made: Made, machine: Machine) -> Made:
    """Merges every two loops around tiles, from the innermost pair outwards."""
    for label, loop, _ in reversed(labelled_loops(made[1].body)):
        inner = loop.body[0]
        around_tiles = isinstance(inner, Loop) and len(inner.body) > 1
        stores = any(machine.unit(c.name) == "store" for c in commands(loop.body))
        if stores and around_tiles:
            after = with_steps((Step("coalesce", (label,)),), made, machine)
            if after is not made:
                return merge_tile_loops(after, machine)
    return made
