"""Sequences that overlap all moves of a kernel of tiled products with its products.

The steps of such a sequence are only useful together: what is loaded for a tile, when, and in which
portions. Therefore, they are carried out wherever they apply, and the estimate only chooses the
tiles. In the result, several products use one operand, loads stay in local memory or are issued
ahead over all enclosing loops, and stores are delayed. Loads and stores are distributed among the
products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import TypeAlias

from tilewright.proposers.rewriter.analysis.buffers import find_buffers
from tilewright.proposers.rewriter.analysis.ranges import (
    env_of,
    labelled_loops,
    loops_in,
    trip_count,
    trips,
)
from tilewright.proposers.rewriter.estimate.cost import estimate
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Dram,
    Kernel,
    Loop,
    children,
    commands,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step, steps_for

Made: TypeAlias = "tuple[tuple[Step, ...], Kernel]"

TECHNIQUES = frozenset(
    (
        *("keep-operand", "retile", "overwrite", "coalesce", "resident", "block-load"),
        *("double-accumulator", "pipeline", "interleave", "split", "unroll", "pack"),
    )
)
"""The techniques in these sequences. `pipeline-nest` belongs to `pipeline`."""
FIRST_TILES = 4
"""Ways to enlarge tiles that may be enlarged a second time."""
TILES = 4
"""Number of tilings with which a sequence continues."""
KEPT, WIDE = 0.5, 0.25
"""Maximum share of a memory for an operand that stays there or is loaded at once. With two slots
for each of two operands, the memory is full."""
LEAST = 128
"""Minimum cycles of products between two moves, so that they hide the core's time for a move."""
WORTH = 0.005
"""Minimum share of the time that code without short loops of moves must save, because it is
longer."""
SPREAD = 8
"""Minimum number of iterations among which moves are distributed, if there are as many."""


def overlapped_sequences(kernel: Kernel, machine: Machine, offered: Set[str]) -> Iterator[Made]:
    """The sequences, those with the best tiles first; none if one of their techniques is not
    available."""
    if not offered >= TECHNIQUES:
        return
    begun = _taken(((), kernel), machine, "overwrite")
    tiled = [_overlapped(tiles, machine) for tiles in _tiled(begun, machine)[:1]]
    yield from tiled
    whole = _whole_result(begun, machine)
    if whole is not None:
        yield whole
    for tiles in _tiled(begun, machine)[len(tiled) : TILES]:
        yield _overlapped(tiles, machine)


def _whole_result(made: Made, machine: Machine) -> Made | None:
    """A product whose whole result stays in local memory; None if it does not fit.

    Every operand is then loaded once, and the first products wait only for the first terms of the
    sums. For a small product, this saves more than stores that overlap the products.
    """
    for technique in ("keep-operand", "retile"):
        for label, loop, above in _tile_loops(made[1], machine)[:1]:
            count = str(trip_count(loop, env_of(above)))
            made = _with((Step(technique, (label, count)),), made, machine)
    outermost = [
        (label, loop)
        for label, loop, above in labelled_loops(made[1].body)
        if not above and _has(loop, machine, "execute")
    ]
    if _tile_loops(made[1], machine) or len(outermost) != 1:
        return None
    label, terms = outermost[0]
    for name in _loaded(made[1], machine):
        made = _with((Step("pipeline", (name, label, "2")),), made, machine)
    made = _taken(made, machine, "widen")
    work = _work(made[1], machine, terms.var)
    if work is not None:
        made = _with((Step("unroll", (work, "0")),), made, machine)
    return _taken(made, machine, "pack")


def _tile_loops(kernel: Kernel, machine: Machine) -> list[tuple[str, Loop, Body]]:
    """The loops around both products and stores, outermost first."""
    return [
        found
        for found in labelled_loops(kernel.body)
        if _has(found[1], machine, "execute") and _has(found[1], machine, "store")
    ]


def _tiled(start: Made, machine: Machine) -> list[Made]:
    """Tiles that keep an operand in the array, enlarged in one or two dimensions, the best
    first."""
    once = _ranked(_each(start, machine, ("keep-operand",)), machine)
    twice = [
        made
        for first in once[:FIRST_TILES]
        for made in _each(first, machine, ("keep-operand", "retile"))
        if made[0][-1].arguments[0] != first[0][-1].arguments[0]
    ]
    best = _ranked(twice, machine)
    return [*once[:1], *best[: TILES - len(once[:1])], *once[1:], *best[TILES:]]


def _overlapped(made: Made, machine: Machine) -> Made:
    """The kernel with these tiles in which all moves overlap the products."""
    made = _coalesced(made, machine)
    made = _shared_loads(made, machine)
    made = _resident(made, machine)
    tile = _tile(made[1], machine)
    if tile is None:
        return made
    made = _wide_loads(made, machine, tile)
    made = _taps(made, machine, tile)
    made = _accumulators(made, machine, tile)
    for name in _loaded(made[1], machine):
        made = _ahead(made, machine, name, tile)
    made = _unrolled(made, machine, tile)
    return _taken(_written_out(made, machine), machine, "pack")


def _written_out(made: Made, machine: Machine) -> Made:
    """Short loops of moves are written out if the time for their code is worth it."""
    after = _taken(made, machine, "write-moves-out")
    before = estimate(made[1], machine).total
    return after if estimate(after[1], machine).total < (1 - WORTH) * before else made


def _tile(kernel: Kernel, machine: Machine) -> str | None:
    """The variable of the innermost loop around products and stores, whose iterations are tiles."""
    found = [
        loop.var
        for _, loop, _ in labelled_loops(kernel.body)
        if _has(loop, machine, "execute") and _has(loop, machine, "store")
    ]
    return found[-1] if found else None


def _label(kernel: Kernel, machine: Machine, variable: str) -> str:
    """The label of the loop over a variable that is around products; empty if there is none."""
    return next(
        (
            label
            for label, loop, _ in labelled_loops(kernel.body)
            if loop.var == variable and _has(loop, machine, "execute")
        ),
        "",
    )


def _work(kernel: Kernel, machine: Machine, variable: str) -> str | None:
    """The only loop with products directly inside such a loop."""
    label = _label(kernel, machine, variable)
    loops = {s: found for found, s, _ in labelled_loops(kernel.body)}
    bodies = [s.body for s, found in loops.items() if found == label]
    inside = [s for b in bodies for s in b if isinstance(s, Loop) and _has(s, machine, "execute")]
    return loops[inside[0]] if len(inside) == 1 else None


def _wide_loads(made: Made, machine: Machine, tile: str) -> Made:
    """Data that a tile loads in parts are loaded for the whole innermost loop at once.

    Then addresses are computed once for this loop, not for each product.
    """
    for widened in (_whole_loads, _wider_loads):
        for name in _loaded(made[1], machine):
            around = _around(made[1], machine, name)
            if around and around[0] != _label(made[1], machine, tile):
                made = widened(made, machine, name, around[0])
    return made


def _whole_loads(made: Made, machine: Machine, name: str, label: str) -> Made:
    """Loads for all of a loop at once, if that takes a small part of the memory."""
    wide = _with((Step("block-load", (name, label)),), made, machine)
    return wide if _takes(wide, machine, name, WIDE) else made


def _wider_loads(made: Made, machine: Machine, name: str, label: str) -> Made:
    """Loads for several iterations of a loop at once, if that makes them fewer.

    The loop becomes two: the inner one has as many iterations as the widest load has columns for.
    """
    most = 1
    for command in commands(made[1].body):
        columns = machine.operands(command.name, "columns")
        if machine.unit(command.name) == "load" and columns and name in _arrays(command):
            extent = command.operands[columns[0]]
            widest = int(machine.attribute(command.name, "max_columns") or 1)
            if isinstance(extent, Expr) and extent.is_const:
                most = max(most, widest // extent.const)
    if most < 2:
        return made
    halved = _with((Step("split", (label, str(most))),), made, machine)
    inner = _inside(halved[1], label)
    if halved is made or inner is None:
        return made
    wide = _with((Step("block-load", (name, inner)),), halved, machine)
    if wide is halved or not _takes(wide, machine, name, WIDE):
        return made
    fewer = _issued(wide[1].body, machine, "load") < _issued(made[1].body, machine, "load")
    return wide if fewer else made


def _arrays(command: Command) -> set[str]:
    return {o.array for o in command.operands if isinstance(o, Dram)}


def _inside(kernel: Kernel, label: str) -> str | None:
    """The label of the first loop directly inside the loop with a label."""
    loops = labelled_loops(kernel.body)
    around = next((loop for found, loop, _ in loops if found == label), None)
    return next((found for found, _, above in loops if above and above[-1] is around), None)


def _takes(made: Made, machine: Machine, name: str, most: float) -> bool:
    """Whether a buffer takes at most a given share of its memory."""
    buffer = next((b for b in find_buffers(made[1], machine) if b.name == name), None)
    return buffer is not None and buffer.rows <= most * machine.spaces[buffer.space].rows


def _taps(made: Made, machine: Machine, tile: str) -> Made:
    """Merges the outermost loops around the products of a tile, as long as the result can be
    unrolled completely."""
    label = _work(made[1], machine, tile)
    after = made if label is None else _with((Step("coalesce", (label,)),), made, machine)
    if after is made or _whole(after, machine, tile) is after:
        return made
    return _taps(after, machine, tile)


def _whole(made: Made, machine: Machine, tile: str) -> Made:
    """The kernel with the loop around the products of a tile unrolled; unchanged if it is too
    long."""
    label = _work(made[1], machine, tile)
    return made if label is None else _with((Step("unroll", (label, "0")),), made, machine)


def _accumulators(made: Made, machine: Machine, tile: str) -> Made:
    """Results are stored one tile later, and their initial values are loaded one tile ahead."""
    for buffer in find_buffers(made[1], machine):
        label = _label(made[1], machine, tile)
        later = Step("double-accumulator", (buffer.name, label, "2", "delayed"))
        after = _with((later,), made, machine)
        if after is not made:
            made = _distributed(after, machine, tile)
            made = _with((Step("pipeline", (buffer.name, label, "2")),), made, machine)
    return made


def _ahead(made: Made, machine: Machine, name: str, tile: str) -> Made:
    """Issues loads of a buffer one iteration ahead, also across restarts of a loop inside a
    tile."""
    around = _around(made[1], machine, name)
    if not around:
        return made
    ways = [(Step(how, (name, around[0], "2")),) for how in ("pipeline-nest", "pipeline")]
    if around[0] == _label(made[1], machine, tile):
        ways.reverse()
    loop = next(s for label, s, _ in labelled_loops(made[1].body) if label == around[0])
    after = _first(ways, made, machine)
    return _distributed(after, machine, loop.var) if after is not made else made


def _distributed(made: Made, machine: Machine, variable: str) -> Made:
    """Distributes the moves of a loop among the iterations of its inner loop, and further inwards
    until these are many."""
    iterations = 1.0
    while iterations < SPREAD:
        work = _work(made[1], machine, variable)
        inside = (found for found in labelled_loops(made[1].body) if found[0] == work)
        _, loop, above = next(inside, ("", None, ()))
        if loop is None or _products(loop, above, machine) * _cycles(machine) < LEAST:
            break
        label = _label(made[1], machine, variable)
        made = _with((Step("interleave", (label,)),), made, machine)
        iterations *= trips(loop, {})[0]
        variable = loop.var
    return made


def _products(loop: Loop, above: Body, machine: Machine) -> float:
    """Number of products in an iteration of a loop in a whole tile. Partial last tiles have
    fewer."""

    def iterations(inner: Loop, around: Body) -> float:
        return trips(inner, env_of(around))[1]

    def multiplies(name: str) -> bool:
        return machine.attribute(name, "uses") is not None

    return _count(loop.body, (*above, loop), multiplies, iterations)


def _cycles(machine: Machine) -> int:
    """The cycles of a product: the array takes one row of it in each."""
    rows = (
        machine.attribute(n, "max_rows") for n in machine.effects if machine.attribute(n, "uses")
    )
    return max((int(r) for r in rows if r), default=1)


def _issued(body: Body, machine: Machine, unit: str) -> float:
    """Minimum number of commands of a unit that a body issues."""
    return _count(
        body, (), lambda name: machine.unit(name) == unit, lambda loop, _: trips(loop, {})[0]
    )


def _count(
    body: Body,
    above: Body,
    counts: Callable[[str], bool],
    iterations: Callable[[Loop, Body], float],
) -> float:
    """Number of commands that a body inside some loops issues and whose names count."""
    count = 0.0
    for stmt in body:
        if isinstance(stmt, Loop):
            inside = _count(stmt.body, (*above, stmt), counts, iterations)
            count += iterations(stmt, above) * inside
        elif isinstance(stmt, Command):
            count += counts(stmt.name)
        else:
            count += _count(children(stmt), above, counts, iterations)
    return count


def _resident(made: Made, machine: Machine) -> Made:
    """Operands that every tile loads stay in local memory if they fit into half of it."""
    for step in list(steps_for(made[1], machine, "resident")):
        outermost = [found for found, _, above in labelled_loops(made[1].body) if not above]
        if step.arguments[1] not in outermost or step.arguments[2] != "before":
            continue
        after = _with((step,), made, machine)
        made = after if _takes(after, machine, step.arguments[0], KEPT) else made
    return made


def _unrolled(made: Made, machine: Machine, tile: str) -> Made:
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
        made = _first(reversed(whole), made, machine)
        if made is after:
            break
        after = made
    return _partly_unrolled(after, machine)


def _has_varying_products(kernel: Kernel, machine: Machine, tile: str) -> bool:
    """Whether a loop of products inside a tile has fewer iterations in some tiles."""
    for _, loop, above in labelled_loops(kernel.body):
        if _has(loop, machine, "execute") and any(s.var == tile for s in loops_in(above)):
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
        if _has(loop, machine, "execute") and not any(isinstance(s, Loop) for s in loop.body)
    ]
    steps = [s for s in steps_for(made[1], machine, "unroll") if s.arguments[0] in inner]
    return _first(((s,) for s in reversed(steps)), made, machine)


def _coalesced(made: Made, machine: Machine) -> Made:
    """Merges every two loops around tiles, from the innermost pair outwards."""
    for label, loop, _ in reversed(labelled_loops(made[1].body)):
        inner = loop.body[0]
        around_tiles = isinstance(inner, Loop) and len(inner.body) > 1
        stores = any(machine.unit(c.name) == "store" for c in commands(loop.body))
        if stores and around_tiles:
            after = _with((Step("coalesce", (label,)),), made, machine)
            if after is not made:
                return _coalesced(after, machine)
    return made


def _loaded(kernel: Kernel, machine: Machine) -> list[str]:
    """Buffers with data that products only read."""
    return [
        b.name
        for b in find_buffers(kernel, machine)
        if b.writers and all(machine.unit(a.command.name) == "load" for a in b.writers)
    ]


def _has(loop: Loop, machine: Machine, unit: str) -> bool:
    return any(machine.unit(c.name) == unit for c in commands(loop.body))


def _around(kernel: Kernel, machine: Machine, name: str) -> list[str]:
    """The loops around all uses of a buffer, innermost first; empty if there are none."""
    buffer = next((b for b in find_buffers(kernel, machine) if b.name == name), None)
    if buffer is None:
        return []
    shared = set(loops_in(buffer.accesses[0].above))
    for access in buffer.accesses:
        shared &= set(loops_in(access.above))
    return [label for label, loop, _ in reversed(labelled_loops(kernel.body)) if loop in shared]


def _each(made: Made, machine: Machine, techniques: Iterable[str]) -> list[Made]:
    """The kernels that some techniques produce at each of their places."""
    steps = [s for technique in techniques for s in steps_for(made[1], machine, technique)]
    found = [_with((step,), made, machine) for step in steps]
    return [f for f in found if f is not made]


def _ranked(found: Iterable[Made], machine: Machine) -> list[Made]:
    return sorted(found, key=lambda made: estimate(made[1], machine).total)


def _shared_loads(made: Made, machine: Machine) -> Made:
    """Data that iterations load repeatedly, such as the pixels under a filter, are loaded once."""
    while True:
        found = _each(made, machine, ("block-load",))
        after = min(found, key=lambda f: estimate(f[1], machine).loaded_rows, default=made)
        if not _loads_less(after, made, machine):
            return made
        made = after


def _loads_less(left: Made, right: Made, machine: Machine) -> bool:
    return estimate(left[1], machine).loaded_rows < estimate(right[1], machine).loaded_rows


def _taken(made: Made, machine: Machine, technique: str) -> Made:
    """A technique at its first place, if it applies there."""
    return _first((((s,) for s in steps_for(made[1], machine, technique))), made, machine)


def _first(ways: Iterable[tuple[Step, ...]], made: Made, machine: Machine) -> Made:
    """The first of several ways that applies; the unchanged sequence if none does."""
    return next((a for way in ways if (a := _with(way, made, machine)) is not made), made)


def _with(steps: tuple[Step, ...], made: Made, machine: Machine) -> Made:
    """The sequence with more steps; unchanged unless all of them apply."""
    kernel = made[1]
    for step in steps:
        after = step.carried_out(kernel, machine)
        if after is None:
            return made
        kernel = after
    return (*made[0], *steps), kernel
