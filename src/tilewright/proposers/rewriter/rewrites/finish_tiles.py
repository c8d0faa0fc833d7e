"""Completes one tile of results after the other, so that their stores overlap the products."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, find_buffers
from tilewright.proposers.rewriter.analysis.ranges import env_of, trips
from tilewright.proposers.rewriter.ir import Body, Kernel, Loop, commands, rebuilt, walk_paths
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.dependence import shares_rows
from tilewright.proposers.rewriter.rewrites.kept_operands import check_nothing_kept
from tilewright.proposers.rewriter.rewrites.structure import fuse, siblings_of


def finish_tiles(kernel: Kernel, machine: Machine, loop: Loop, count: int) -> Kernel:
    """In the last `count` iterations of a loop over terms, compute and store one tile after the
    other.

    Before: `for (p = 0; p < 9; p++) for ii add(p, ii);  for ii store(ii);`
    After:  `for (p = 0; p < 7; p++) for ii add(p, ii);
             for ii { for (p = 7; p < 9; p++) add(p, ii); store(ii); }`

    The first stores then need not wait for all sums. Legal if no two tiles use the same rows of
    results. The terms of each sum keep their order.
    """
    stores = stores_after(kernel, machine, loop)
    above = next(above for s, above in walk_paths(kernel.body) if s is loop)
    fewest, most = trips(loop, env_of(above))
    if stores is None or fewest != most or not 1 <= count <= most:
        raise NotApplicable(f"loop {loop.var} is not a loop of products before a loop of stores")
    nest = _nest(loop)
    tile = next((s for s in nest[1:] if _bounds(s) == _bounds(stores)), None)
    if tile is None or any(machine.unit(c.name) != "execute" for c in commands(loop.body)):
        raise NotApplicable(f"loop {loop.var} does not consist of products of the stored tiles")
    if any(tile.var in s.lower.names() | s.upper.names() for s in nest):
        raise NotApplicable(f"the bounds of other loops depend on {tile.var}")
    for around in nest:
        check_nothing_kept(around, machine)
    inside = set(commands(loop.body))
    outside = nest[: nest.index(tile)]
    for buffer in find_buffers(kernel, machine):
        touched = [a for a in buffer.accesses if a.command in inside]
        if shares_rows(kernel, touched, tile, machine, within=outside):
            raise NotApplicable(f"tiles of loop {tile.var} share rows of {buffer.name}")
    first = loop.lower + (int(most) - count) * loop.step
    body: Body = tile.body
    for around in reversed(outside[1:]):
        body = (replace(around, body=body),)
    last = replace(loop, lower=first, notes=(), body=body)
    finish = replace(tile, body=(last,), notes=())
    main = (replace(loop, upper=first),) if count < most else ()
    split = rebuilt(kernel.body, lambda s: (*main, finish) if s is loop else None)
    return fuse(kernel.with_body(split), machine, finish)


def stores_after(kernel: Kernel, machine: Machine, loop: Loop) -> Loop | None:
    """The loop of stores directly after a loop; None if something else follows it."""
    siblings = siblings_of(kernel, loop)
    following = siblings[siblings.index(loop) + 1 :][:1]
    for stmt in following:
        if isinstance(stmt, Loop) and all(
            machine.unit(c.name) == "store" for c in commands((stmt,))
        ):
            return stmt
    return None


def _nest(loop: Loop) -> list[Loop]:
    """A loop and the loops inside it, each of which is the only statement of the one around it."""
    found = [loop]
    while len(found[-1].body) == 1 and isinstance(inner := found[-1].body[0], Loop):
        found.append(inner)
    return found


def _bounds(loop: Loop) -> tuple[object, object, int]:
    return loop.lower, loop.upper, loop.step
