"""Computes a tile before a loop if all iterations compute the same tile.

If inner loops give it several values, all of them are kept in a wider tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tilewright.proposers.nki.analysis.dependence import (
    NotApplicableError,
    allocated,
    has_hidden_state,
    read,
    touches,
    written,
)
from tilewright.proposers.nki.analysis.widening import leaf
from tilewright.proposers.nki.ir import (
    Alloc,
    Body,
    Kernel,
    Loop,
    Path,
    at,
    mapped_ops,
    ops,
    spliced,
    substituted,
    variables,
)
from tilewright.proposers.nki.linear import Linear, variable
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.expansion import expanded, require_room, widened_tiles


def hoist(kernel: Kernel, path: Path, name: str) -> Kernel:
    """The kernel with a tile computed before the loop at `path`."""
    loop = at(kernel.body, path)
    if not isinstance(loop, Loop):
        raise NotApplicableError("there is no such loop")
    between, body, home = _home(loop, name)
    chosen, needed = _slice(body, name)
    slice_body = tuple(body[number] for number in chosen)
    rest = tuple(
        s for n, s in enumerate(body)
        if n not in chosen and not (isinstance(s, Alloc) and s.tensor.name in needed)
    )  # fmt: skip
    _require_invariant(loop, between, slice_body, needed)
    kept = [n for n in sorted(needed) if n in read(rest) or n == name]
    if written(rest) & needed or any(_read_early(body, chosen, n) for n in kept):
        raise NotApplicableError(f"{name} is used before it is complete")
    between = [k for k in between if any(k.variable in variables(op) for op in ops(slice_body))]
    copies, copy = 1, Linear()
    for inner in between:
        copies, copy = copies * inner.trips, copy * inner.trips + variable(inner.variable)
    world = kernel.tensors()
    for n in kept:
        tensor = expanded(world[n], copies)
        if not tensor.on_chip:
            raise NotApplicableError(f"{n} is in HBM")
        require_room(tensor)
    unplaced = tuple(Alloc(world[n]) for n in kept)
    own = dict.fromkeys(kept, (copies, copy))
    wide, after = _apart(widened_tiles((*unplaced, *rest), own), len(unplaced))
    made = _apart(widened_tiles((*unplaced, *slice_body), own), len(unplaced))[1]
    made = (*(Alloc(world[n]) for n in sorted(needed) if n not in kept), *made)
    names = Names(kernel)
    for inner in reversed(between):
        fresh = names.fresh(inner.variable)
        values = {inner.variable: variable(fresh)}
        made = mapped_ops(made, partial(substituted, values=values))
        made = (leaf(Loop(fresh, inner.trips, inner.kind, made), world),)
    inside = _with_inner(loop.body, home, after) if home else after
    statements = (*wide, *made, replace(loop, body=inside)) if inside else (*wide, *made)
    return replace(kernel, body=spliced(kernel.body, path, statements))


def _apart(body: Body, count: int) -> tuple[Body, Body]:
    return body[:count], body[count:]


def _with_inner(body: Body, path: Path, inner: Body) -> Body:
    """The body in which that of the loop at a place is replaced."""
    loop = at(body, path)
    assert isinstance(loop, Loop)
    return spliced(body, path, (replace(loop, body=inner),))


def _home(loop: Loop, name: str, path: Path = ()) -> tuple[list[Loop], Body, Path]:
    """The loops between a loop and the body that creates a tile, this body, and its loop."""
    for number, statement in enumerate(loop.body):
        if isinstance(statement, Alloc) and statement.tensor.name == name:
            return [], loop.body, path
        if isinstance(statement, Loop) and name in allocated(statement.body):
            between, body, home = _home(statement, name, (*path, number))
            return [statement, *between], body, home
    raise NotApplicableError(f"{name} is not created in this loop")


def _slice(body: Body, name: str) -> tuple[list[int], set[str]]:
    """The statements that compute a tile, and the tiles that they use."""
    private = {s.tensor.name for s in body if isinstance(s, Alloc)}
    needed, chosen = {name}, set[int]()
    while True:
        before = len(chosen), len(needed)
        for number, statement in enumerate(body):
            if isinstance(statement, Alloc):
                continue
            part = (statement,)
            if written(part) & needed:
                chosen.add(number)
                needed |= (read(part) | written(part)) & private
        if before == (len(chosen), len(needed)):
            return sorted(chosen), needed


def _require_invariant(loop: Loop, between: Sequence[Loop], chosen: Body, needed: set[str]) -> None:
    if has_hidden_state(chosen):
        raise NotApplicableError("sums are kept in the accumulator of ACT")
    changed = written(loop.body)
    own = {*needed, *allocated(chosen)}
    for op in ops(chosen):
        if loop.variable in variables(op):
            raise NotApplicableError("the result differs between iterations")
        if any(region.tensor not in own for region in op.writes):
            raise NotApplicableError("the computation also writes other tiles")
        if any(region.tensor in changed - own for region in op.reads):
            raise NotApplicableError("the computation uses values that the loop changes")


def _read_early(body: Body, chosen: Sequence[int], name: str) -> bool:
    """Whether another instruction reads a tile before all statements that write it have run."""
    last = max((n for n in chosen if name in written((body[n],))), default=-1)
    return any(
        touches(statement, name)
        for number, statement in enumerate(body[: last + 1])
        if number not in chosen
    )
