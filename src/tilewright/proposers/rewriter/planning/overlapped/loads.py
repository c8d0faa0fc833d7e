"""What is loaded at once, and what stays in local memory."""

from __future__ import annotations

from tilewright.proposers.rewriter.analysis.ranges import env_of, labelled_loops
from tilewright.proposers.rewriter.estimate.cost import estimate
from tilewright.proposers.rewriter.expr import Expr, bounds
from tilewright.proposers.rewriter.ir import Command, arrays_of, walk_paths
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.overlapped.extending import Made, each_place, with_steps
from tilewright.proposers.rewriter.planning.overlapped.queries import (
    commands_issued,
    label_around_products,
    label_inside,
    loaded_buffers,
    loops_around,
    loops_inside,
    takes_at_most,
)
from tilewright.proposers.rewriter.planning.steps import Step, steps_for

KEPT, WIDE = 0.5, 0.25
"""Maximum share of a memory for an operand that stays there or is loaded at once. With two slots
for each of two operands, the memory is full."""


def load_wide(made: Made, machine: Machine, tile: str) -> Made:
    """Data that a tile loads in parts are loaded for the whole innermost loop at once.

    Then addresses are computed once for this loop, not for each product.
    """
    for widened in (_whole_loads, _wider_loads):
        for name in loaded_buffers(made[1], machine):
            around = loops_around(made[1], machine, name)
            inside = loops_inside(made[1], label_around_products(made[1], machine, tile))
            if around and around[0] in inside:
                made = widened(made, machine, name, around[0])
    return made


def _whole_loads(made: Made, machine: Machine, name: str, label: str) -> Made:
    """Loads for all of a loop at once, if that takes a small part of the memory."""
    wide = with_steps((Step("block-load", (name, label)),), made, machine)
    return wide if takes_at_most(wide, machine, name, WIDE) else made


def _wider_loads(made: Made, machine: Machine, name: str, label: str) -> Made:
    """Loads for several iterations of a loop at once, if that makes them fewer.

    The loop becomes two: the inner one has as many iterations as the widest load has columns for.
    """
    most = 1
    for command, above in walk_paths(made[1].body):
        if not isinstance(command, Command):
            continue
        columns = machine.operands(command.name, "columns")
        if machine.unit(command.name) == "load" and columns and name in arrays_of(command):
            extent = command.operands[columns[0]]
            widest = int(machine.attribute(command.name, "max_columns") or 1)
            columns_of_whole = bounds(extent, env_of(above))[1] if isinstance(extent, Expr) else 0
            if columns_of_whole > 0:
                most = max(most, int(widest // columns_of_whole))
    if most < 2:
        return made
    halved = with_steps((Step("split", (label, str(most))),), made, machine)
    inner = label_inside(halved[1], label)
    if halved is made or inner is None:
        return made
    wide = with_steps((Step("block-load", (name, inner)),), halved, machine)
    if wide is halved or not takes_at_most(wide, machine, name, WIDE):
        return made
    after = commands_issued(wide[1].body, machine, "load")
    return wide if after < commands_issued(made[1].body, machine, "load") else made


def keep_resident(made: Made, machine: Machine) -> Made:
    """Operands that every tile loads stay in local memory if they fit into half of it."""
    for step in list(steps_for(made[1], machine, "resident")):
        outermost = [found for found, _, above in labelled_loops(made[1].body) if not above]
        if step.arguments[1] not in outermost or step.arguments[2] != "before":
            continue
        after = with_steps((step,), made, machine)
        made = after if takes_at_most(after, machine, step.arguments[0], KEPT) else made
    return made


def keep_for_strip(made: Made, machine: Machine, label: str) -> Made:
    """An operand that all iterations of a loop inside another one use is loaded before the inner
    loop, if two slots for it take at most half of the memory."""
    for step in list(steps_for(made[1], machine, "resident")):
        if step.arguments[1:] == (label, "before"):
            after = with_steps((step,), made, machine)
            if takes_at_most(after, machine, step.arguments[0], KEPT / 2):
                return after
    return made


def share_loads(made: Made, machine: Machine) -> Made:
    """Data that iterations load repeatedly, such as the pixels under a filter, are loaded once."""
    while True:
        found = each_place(made, machine, ("block-load",))
        after = min(found, key=lambda f: estimate(f[1], machine).loaded_rows, default=made)
        if not _loads_less(after, made, machine):
            return made
        made = after


def _loads_less(left: Made, right: Made, machine: Machine) -> bool:
    return estimate(left[1], machine).loaded_rows < estimate(right[1], machine).loaded_rows
