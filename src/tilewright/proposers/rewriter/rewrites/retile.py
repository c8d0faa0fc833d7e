"""Larger tiles: several neighbouring ones per iteration, so that what they share is loaded once."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.rewriter.analysis import at_value, env_of, trip_count
from tilewright.proposers.rewriter.buffers import (
    Buffer,
    NotApplicable,
    find_buffers,
    readdressed,
)
from tilewright.proposers.rewriter.expr import Expr, minimum, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Dram,
    Guard,
    Kernel,
    Loop,
    Stmt,
    commands,
    has_opaque,
    names_in,
    rebuilt,
    walk,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.placement import ELSEWHERE, placed
from tilewright.proposers.rewriter.rewrites.dependence import check_private
from tilewright.proposers.rewriter.rewrites.multibuffer import same_loop


def retile(kernel: Kernel, machine: Machine, loop: Loop, factor: int) -> Kernel:
    """Work on `factor` neighbouring tiles of a loop at once, inside its inner loops.

    Before: `for i { for k { load(A[i][k]); load(B[k]); product; } store(C[i]); }`
    After:  `for i (larger step) { for k { for ii load(A[i + ii][k]); load(B[k]); for ii product; }
    for ii store(C[i + ii]); }`

    Buffers that differ between the tiles grow; the others are loaded once for all of them. Legal
    when no buffer carries values over the loop.
    """
    above = next(a for s, a in walk_paths(kernel.body) if s is loop)
    count = trip_count(loop, env_of(above))
    if count is None or count < factor or has_opaque(loop.body):
        raise NotApplicable(f"loop {loop.var} has no {factor} tiles to work on at once")
    inner = _fresh(kernel, loop.var * 2 if len(loop.var) == 1 else f"{loop.var}_tile")
    for buffer in _differing(kernel, machine, loop):
        check_private(buffer, loop, machine)
        if buffer.slots > 1:
            raise NotApplicable(f"{buffer.name} has slots already")
        kernel, loop = _expanded(kernel, machine, loop, buffer, inner)
    body = at_value(loop.body, loop.var, var(loop.var) + var(inner))
    tile = Loop(inner, Expr(), minimum(Expr(loop.step * factor), loop.upper - var(loop.var)),
                loop.step, ())
    new = replace(loop, step=loop.step * factor, body=_sunk(tile, body))
    kernel = kernel.with_body(rebuilt(kernel.body, lambda s: (new,) if s is loop else None))
    return placed(kernel, machine)


def _fresh(kernel: Kernel, base: str) -> str:
    taken = {s.var for s in walk(kernel.body) if isinstance(s, Loop)}
    taken |= {a.name for a in kernel.arrays} | set(kernel.names.values())
    name, number = base, 2
    while name in taken:
        name, number = f"{base}{number}", number + 1
    return name


def _differing(kernel: Kernel, machine: Machine, loop: Loop) -> list[Buffer]:
    """Buffers whose contents differ from tile to tile."""
    inside = set(commands(loop.body))
    result = []
    for buffer in find_buffers(kernel, machine):
        writers = [a.command for a in buffer.writers if a.command in inside]
        shared = all(machine.unit(c.name) == "load" and loop.var not in names_in(c)
                     and any(isinstance(o, Dram) for o in c.operands) for c in writers)
        if writers and not shared:
            result.append(buffer)
    return result


def _expanded(
    kernel: Kernel, machine: Machine, loop: Loop, buffer: Buffer, inner: str
) -> tuple[Kernel, Loop]:
    """Room for every tile; `inner` counts the elements between them."""
    if buffer.rows % loop.step:
        raise NotApplicable(f"the rows of {buffer.name} do not divide by the tile")
    index = [b.name for b in find_buffers(kernel, machine)].index(buffer.name)
    shift = var(inner) * (buffer.rows // loop.step) + (ELSEWHERE * (index + 1) - buffer.base)
    by_command = {(a.command, a.operand): a.local.row + shift for a in buffer.accesses}
    new = readdressed(kernel, buffer, lambda a: by_command[a.command, a.operand])
    return new, same_loop(kernel, new, loop)


def _sunk(tile: Loop, body: Body) -> Body:
    """The body with the tile loop around each innermost run of commands that need it."""
    result: list[Stmt] = []
    run: list[Stmt] = []

    def close() -> None:
        if run:
            result.append(replace(tile, body=tuple(run)))
            run.clear()

    for stmt in body:
        if isinstance(stmt, Command) and tile.var in names_in(stmt):
            run.append(stmt)
            continue
        if isinstance(stmt, Loop) and tile.var in stmt.lower.names() | stmt.upper.names():
            run.append(stmt)
            continue
        close()
        if isinstance(stmt, Loop):
            result.append(replace(stmt, body=_sunk(tile, stmt.body)))
        elif isinstance(stmt, Guard):
            result.append(replace(tile, body=(stmt,)))
        else:
            result.append(stmt)
    close()
    return tuple(result)
