"""Gives what is computed into a tile that is in use already a tile of its own."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError, allocated
from tilewright.proposers.nki.ir import (
    CHANGES,
    Alloc,
    Body,
    Kernel,
    Loop,
    Op,
    Path,
    Region,
    Statement,
    mapped_regions,
    spliced,
    substituted,
    trips_of,
)
from tilewright.proposers.nki.linear import variable
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.uses import body_of, is_whole, op_at, uses


def renewed(kernel: Kernel, path: Path) -> Kernel:
    """With new tiles for results written over tiles in use, from a place to its body's end.

    An instruction that gets a new tile moves by one: the tile is created in its place.
    """
    number = path[-1]
    while number < len(body_of(kernel, path)):
        if isinstance(body_of(kernel, path)[number], Op):
            try:
                kernel = fresh(kernel, (*path[:-1], number))
                number += 1
            except NotApplicableError:
                pass
        number += 1
    return kernel


def with_own_tile(kernel: Kernel, path: Path, name: str) -> Kernel:
    """With new tiles for what is written over the tile after `path`, as far as that is possible."""
    if len(uses(kernel, name).written) == 1:
        return kernel
    return renewed(kernel, (*path[:-1], path[-1] + 1))


def copied(body: Body, names: Names) -> Body:
    """The same statements with new names for the tiles that they create and for their loops."""
    tiles = {name: names.fresh(name) for name in allocated(body)}
    loops = {name: names.fresh(name) for name in trips_of(body)}
    places = {old: variable(new) for old, new in loops.items()}

    def renamed(region: Region) -> Region:
        return replace(region, tensor=tiles.get(region.tensor, region.tensor))

    def made(statement: Statement) -> Statement:
        if isinstance(statement, Loop):
            inner = tuple(made(s) for s in statement.body)
            return replace(statement, variable=loops[statement.variable], body=inner)
        if isinstance(statement, Alloc):
            return Alloc(replace(statement.tensor, name=tiles[statement.tensor.name]))
        return substituted(mapped_regions(statement, renamed), places)

    return tuple(made(statement) for statement in body)


def fresh(kernel: Kernel, path: Path) -> Kernel:
    """The kernel with a new tile for the result of an instruction, created in its place.

    Everything behind the instruction uses the new tile. The instruction must replace all of the old
    one, which must not live longer than the iteration that the instruction is in.
    """
    op = op_at(kernel, path)
    target = op.get("dst")
    if not isinstance(target, Region):
        raise NotApplicableError("the instruction has no result")
    tile = kernel.tensors()[target.tensor]
    if op.name in CHANGES or not tile.on_chip or not is_whole(target, tile):
        raise NotApplicableError("the instruction does not overwrite all of its tile")
    found = uses(kernel, tile.name)
    if found.home[:-1] != path[:-1]:
        raise NotApplicableError(f"{tile.name} lives longer than an iteration")
    if not any(place < path for place in (*found.written, *found.read)):
        raise NotApplicableError(f"{tile.name} is not used before the instruction")
    name = Names(kernel).fresh(tile.name)

    def renamed(region: Region) -> Region:
        return replace(region, tensor=name) if region.tensor == tile.name else region

    body = kernel.body
    for place in {*found.written, *found.read}:
        if place > path:
            body = spliced(body, place, (mapped_regions(op_at(kernel, place), renamed),))
    own = (Alloc(replace(tile, name=name)), op.having(dst=renamed(target)))
    return replace(kernel, body=spliced(body, path, own))
