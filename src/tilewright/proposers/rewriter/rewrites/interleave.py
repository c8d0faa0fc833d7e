"""Distributes moves over the computation that they overlap, so that they do not fill their
queue."""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import replace

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import at_value, env_of, trip_count, trips
from tilewright.proposers.rewriter.expr import Expr, minimum, quotient, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Compare,
    Guard,
    Kernel,
    Loop,
    Stmt,
    commands,
    fresh_name,
    has_opaque,
    rebuilt,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.coalesce import as_one
from tilewright.proposers.rewriter.rewrites.dependence import check_constant, check_settings
from tilewright.proposers.rewriter.rewrites.ordering import (
    check_fences,
    check_free_rows,
    check_stored_alone,
)


def interleave(kernel: Kernel, machine: Machine, loop: Loop) -> Kernel:
    """Distribute moves for which an iteration does not wait over its loop of computation.

    Before: `for i { if (..) for (k, step 64) load(next A); for (k, step 16) product; }`
    After:  `for i { for (k, step 64) { if (..) load(next A); for (kk, step 16) product; } }`
    Before: `for i { for (k, step 16) product; if (i > 0) for (j) store(C[i - 16][j]); }`
    After:  `for i { for (k, step 16) { if (i > 0) store(C[i - 16][k]); product; } }`

    If the loops have different ranges, the moves are divided evenly. Legal for loads into rows that
    this iteration does not use, and for stores of rows that it does not write.
    """
    if has_opaque(loop.body):
        raise NotApplicable(f"loop {loop.var} contains unrecognised code")
    refusal: NotApplicable | None = None
    for stmt in loop.body:
        burst = _burst(stmt, machine)
        work = _work(loop, stmt, machine) if burst is not None else None
        if burst is None or work is None:
            continue
        try:
            return _spread(kernel, machine, loop, stmt, burst, work)
        except NotApplicable as reason:
            refusal = refusal or reason
    raise refusal or NotApplicable(
        f"loop {loop.var} does not contain both a loop of moves and a loop of computation"
    )


def load_midway(kernel: Kernel, machine: Machine, loop: Loop) -> Kernel:
    """Issue a load for a later iteration in the middle of the products of this one.

    Before: `for i { if (i + 1 < 8) load(i + 1); for (k = 0; k < 4; k++) product; }`
    After:  `for i { for (k = 0; k < 4; k++) { if (k == 2) if (i + 1 < 8) load(i + 1); product; } }`

    The core issues commands before the products of the previous iteration have run. If the load
    comes later, these products no longer read the bank that it writes. Legal as for `interleave`.
    """
    if has_opaque(loop.body):
        raise NotApplicable(f"loop {loop.var} contains unrecognised code")
    above = next(a for s, a in walk_paths(kernel.body) if s is loop)
    for stmt in loop.body:
        inside = stmt.body if isinstance(stmt, Guard) and not stmt.orelse else (stmt,)
        work = _work(loop, stmt, machine)
        if work is None or len(inside) != 1 or not isinstance(inside[0], Command):
            continue
        fewest, most = trips(work, env_of((*above, loop)))
        if machine.unit(inside[0].name) != "load" or fewest < 2 or fewest != most:
            continue
        _check_moves(kernel, machine, {inside[0]}, loop, "load")
        middle = work.lower + int(most) // 2 * work.step
        part = Guard((Compare("==", var(work.var), middle),), (stmt,))
        later = replace(work, body=(part, *work.body))
        body = tuple(later if s is work else s for s in loop.body if s is not stmt)
        return _replaced(kernel, loop, replace(loop, body=body))
    raise NotApplicable(f"loop {loop.var} contains no single load before a loop of computation")


def _spread(
    kernel: Kernel, machine: Machine, loop: Loop, stmt: Stmt, burst: Loop, work: Loop
) -> Kernel:
    _check_moves(kernel, machine, set(commands(burst.body)), loop, _unit(burst, machine))
    fused = (
        _fused(kernel, stmt, burst, work)
        if _matches(burst, work)
        else _shared_out(kernel, loop, stmt, burst, work)
    )
    body = tuple(fused if s is work else s for s in loop.body if s is not stmt)
    return _replaced(kernel, loop, replace(loop, body=body))


def _check_moves(
    kernel: Kernel, machine: Machine, moves: Set[Command], loop: Loop, unit: str
) -> None:
    """Raise `NotApplicable` if moves of a unit cannot be issued among the products of a loop."""
    check_settings(kernel, machine, moves, loop)
    if unit == "load":
        check_constant(kernel, machine, moves, loop)
    else:
        check_stored_alone(kernel, machine, moves, loop)
    check_fences(kernel, machine, moves, loop)
    check_free_rows(kernel, machine, moves, loop)


def _work(loop: Loop, moves: Stmt, machine: Machine) -> Loop | None:
    """The first loop of computation: after the loads, or anywhere for stores of an earlier
    iteration."""
    stores = any(machine.unit(c.name) == "store" for c in commands((moves,)))
    following = loop.body if stores else loop.body[loop.body.index(moves) + 1 :]
    return next((s for s in following if isinstance(s, Loop) and not _burst(s, machine)), None)


def _replaced(kernel: Kernel, old: Loop, new: Loop) -> Kernel:
    return kernel.with_body(rebuilt(kernel.body, lambda s: (new,) if s is old else None))


def _burst(stmt: Stmt, machine: Machine) -> Loop | None:
    """The loop of a statement that only loads or only stores, possibly inside one guard."""
    alone = stmt.body if isinstance(stmt, Guard) and not stmt.orelse else (stmt,)
    inner = alone[0] if len(alone) == 1 else None
    return inner if isinstance(inner, Loop) and _unit(inner, machine) else None


def _unit(loop: Loop, machine: Machine) -> str:
    """The unit of all commands in a loop, "load" or "store"; empty if they differ."""
    units = {machine.unit(c.name) for c in commands(loop.body)}
    return units.pop() if units in ({"load"}, {"store"}) else ""


def _matches(burst: Loop, work: Loop) -> bool:
    return burst.lower == work.lower and burst.upper == work.upper and burst.step % work.step == 0


def _fused(kernel: Kernel, moves: Stmt, burst: Loop, work: Loop) -> Loop:
    part = _inside(moves, burst.body)
    if burst.step == work.step:
        return replace(work, body=(*at_value(part, burst.var, var(work.var)), *work.body))
    name = fresh_name(kernel, burst.var)
    inner = at_value(work.body, work.var, var(burst.var) + var(name))
    upper = minimum(Expr(burst.step), burst.upper - var(burst.var))
    return replace(
        burst, notes=work.notes, body=(*part, Loop(name, Expr(), upper, work.step, inner))
    )


def _shared_out(kernel: Kernel, loop: Loop, moves: Stmt, burst: Loop, work: Loop) -> Loop:
    """The number of moves for each iteration of the computation, so that all are issued evenly.

    If the computation has more iterations than the fewest, the last ones issue no moves.
    """
    above = next(a for s, a in walk_paths(kernel.body) if s is loop)
    env = env_of((*above, loop))
    iterations = int(trips(work, {})[0])
    while (trip_count(burst, {}) or iterations) < iterations:
        try:
            burst = as_one(kernel, burst, (*above, loop))
        except NotApplicable:
            break
    fewest, most = trips(burst, env)
    if most < 2 or not math.isfinite(most) or not iterations:
        raise NotApplicable(f"the moves next to loop {work.var} cannot be distributed evenly")
    turn = quotient(var(work.var) - work.lower, work.step)

    def first(turn: Expr) -> Expr:
        common = math.gcd(int(most), iterations)
        done = quotient(turn * (int(most) // common), iterations // common)
        return burst.lower + done * burst.step

    last = first(turn + 1)
    is_whole = fewest == most and trips(work, env)[1] == iterations
    name = burst.var if burst.var != work.var else fresh_name(kernel, burst.var)
    part = Loop(
        name,
        first(turn),
        last if is_whole else minimum(burst.upper, last),
        burst.step,
        at_value(burst.body, burst.var, var(name)),
    )
    return replace(work, body=(*_inside(moves, (part,)), *work.body))


def _inside(moves: Stmt, body: Body) -> Body:
    """The body inside the guard that contains the moves, if there is one."""
    return (replace(moves, body=body),) if isinstance(moves, Guard) else body
