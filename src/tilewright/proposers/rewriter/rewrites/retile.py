"""Enlarges tiles: an iteration processes several neighbouring tiles, so that shared data are loaded
once."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.rewriter.analysis.addresses import readdressed, shifted
from tilewright.proposers.rewriter.analysis.buffers import Buffer, NotApplicable, find_buffers
from tilewright.proposers.rewriter.analysis.placement import ELSEWHERE, placed
from tilewright.proposers.rewriter.analysis.ranges import at_value, env_of, same_loop, trip_count
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
    fresh_name,
    has_opaque,
    names_in,
    rebuilt,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.dependence import check_private, check_stores
from tilewright.proposers.rewriter.rewrites.kept_operands import (
    check_nothing_kept,
    keeps_across,
    keeps_first,
)
from tilewright.proposers.rewriter.rewrites.ordering import check_fences


def retile(kernel: Kernel, machine: Machine, loop: Loop, factor: int) -> Kernel:
    """Process `factor` neighbouring tiles of a loop at once, inside its inner loops.

    Before: `for i { for k { load(A[i][k]); load(B[k]); product; } store(C[i]); }`
    After:  `for i (larger step) { for k { for ii load(A[i + ii][k]); load(B[k]); for ii product; }
    for ii store(C[i + ii]); }`

    Buffers that differ between the tiles grow; the others are loaded once for all of them. Legal if
    no buffer carries values across iterations, no product keeps an operand that another iteration
    latched, and no iteration stores elements that another one accesses.
    """
    above = next(a for s, a in walk_paths(kernel.body) if s is loop)
    count = trip_count(loop, env_of(above))
    if count is None or count < factor or has_opaque(loop.body):
        raise NotApplicable(
            f"loop {loop.var} does not have {factor} tiles that can be processed at once"
        )
    check_nothing_kept(loop, machine)
    check_stores(kernel, machine, loop)
    check_fences(kernel, machine, set(commands(loop.body)), loop)
    inner = fresh_name(kernel, loop.var)
    rows: dict[tuple[Command, int], Expr] = {}
    for number, buffer in enumerate(_differing(kernel, machine, loop), start=1):
        check_private(kernel, buffer, loop, machine)
        if buffer.slots > 1 or buffer.rows % loop.step:
            raise NotApplicable(f"{buffer.name} cannot grow by whole tiles")
        aside = Expr(ELSEWHERE * number - buffer.base)
        rows |= shifted(buffer, var(inner) * (buffer.rows // loop.step) + aside)
    grown = readdressed(kernel, rows)
    kernel, loop = grown, same_loop(kernel, grown, loop)
    body = at_value(loop.body, loop.var, var(loop.var) + var(inner))
    tile = Loop(
        inner, Expr(), minimum(Expr(loop.step * factor), loop.upper - var(loop.var)), loop.step, ()
    )
    new = replace(loop, step=loop.step * factor, body=_sunk(tile, body, machine))
    kernel = kernel.with_body(rebuilt(kernel.body, lambda s: (new,) if s is loop else None))
    return placed(kernel, machine)


def _differing(kernel: Kernel, machine: Machine, loop: Loop) -> list[Buffer]:
    """Buffers whose contents differ from tile to tile."""
    inside = set(commands(loop.body))
    result = []
    for buffer in find_buffers(kernel, machine):
        writers = [a.command for a in buffer.writers if a.command in inside]
        shared = all(
            machine.unit(c.name) == "load"
            and loop.var not in names_in(c)
            and any(isinstance(o, Dram) for o in c.operands)
            for c in writers
        )
        if writers and not shared:
            result.append(buffer)
    return result


def _sunk(tile: Loop, body: Body, machine: Machine) -> Body:
    """The body with the tile loop around each innermost sequence of commands that depends on it.

    Consecutive products stay together, and so does all code from a product to one that keeps its
    latched operand.
    """
    result: list[Stmt] = []
    for run in _joined(_runs(body, machine), machine):
        if any(_needs(s, tile.var) for s in run):
            result.append(replace(tile, body=run))
        elif _is_whole(run, machine):
            named = any(tile.var in names_in(c) for c in commands(run))
            result.extend((replace(tile, body=run),) if named else run)
        elif isinstance(run[0], Loop):
            result.append(replace(run[0], body=_sunk(tile, run[0].body, machine)))
        else:
            result.extend(run)
    return tuple(result)


def _runs(body: Body, machine: Machine) -> list[Body]:
    """Consecutive products together, and every other statement separately."""
    runs: list[Body] = []
    for stmt in body:
        if runs and _multiplies(stmt, machine) and _multiplies(runs[-1][-1], machine):
            runs[-1] = (*runs[-1], stmt)
        else:
            runs.append((stmt,))
    if any(_latches_last(run[-1], machine) for run in runs):
        raise NotApplicable("other commands stand between a latched operand and its product")
    return runs


def _latches_last(stmt: Stmt, machine: Machine) -> bool:
    """Whether a statement may end with an operand that only a later statement uses."""
    if not isinstance(stmt, Guard):
        return isinstance(stmt, Command) and machine.attribute(stmt.name, "latches") is not None
    return any(b and _latches_last(b[-1], machine) for b in (stmt.body, stmt.orelse))


def _multiplies(stmt: Stmt, machine: Machine) -> bool:
    """Whether a statement is a part of products, perhaps under a condition."""
    if isinstance(stmt, Guard):
        return all(_multiplies(s, machine) for s in (*stmt.body, *stmt.orelse))
    return isinstance(stmt, Command) and machine.unit(stmt.name) == "execute"


def _joined(runs: list[Body], machine: Machine) -> list[Body]:
    """The sequences. One that begins with a product that keeps an operand is merged with the
    sequence that latched it."""
    result: list[Body] = []
    for run in runs:
        if keeps_first(run, machine):
            above = [n for n, r in enumerate(result) if keeps_first(r, machine) is not None]
            first = above[-1] if above else len(result)
            run = tuple(s for r in result[first:] for s in r) + run
            del result[first:]
        result.append(run)
    return result


def _is_whole(run: Body, machine: Machine) -> bool:
    """Whether the tile loop can only be around a sequence, not inside it."""
    return len(run) > 1 or (isinstance(run[0], Loop) and keeps_across(run[0], machine))


def _needs(stmt: Stmt, name: str) -> bool:
    """Whether a statement depends on the tile. For a loop, only its bounds are considered."""
    match stmt:
        case Command():
            return name in names_in(stmt)
        case Loop(_, lower, upper):
            return name in lower.names() | upper.names()
        case Guard():
            return True
    return False
