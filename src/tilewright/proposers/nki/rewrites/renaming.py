"""Gives a result that overwrites a tile in use a separate tile."""

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
    """The kernel with new tiles for results that overwrite tiles in use, from a place to the end of
    its body.

    An instruction with a new tile moves by one position, because the tile is created before it.
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
    """The kernel with new tiles for later writes to the tile after `path`, as far as possible."""
    if len(uses(kernel, name).written) == 1:
        return kernel
    return renewed(kernel, (*path[:-1], path[-1] + 1))


def copied(body: Body, names: Names) -> Body:
    """The same statements with new names for their loops and for the tiles that they create."""
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
    """The kernel with a new tile for the result of an instruction.

    All later instructions use the new tile. The instruction must replace the whole old tile, which
    must exist only in the iteration of the instruction.
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
