"""Spreads loads over the computation that they overlap, so that they do not fill the load queue."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.rewriter.analysis import at_value, trip_count
from tilewright.proposers.rewriter.buffers import NotApplicable
from tilewright.proposers.rewriter.expr import Expr, minimum, quotient, var
from tilewright.proposers.rewriter.ir import (
    Compare,
    Guard,
    Kernel,
    Loop,
    commands,
    fresh_name,
    has_opaque,
    rebuilt,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.dependence import check_constant, check_settings
from tilewright.proposers.rewriter.rewrites.ordering import check_fences, check_free_rows


def interleave(kernel: Kernel, machine: Machine, loop: Loop) -> Kernel:
    """Spread the loads for the next iteration over the loop of computation after them.

    Before: `for i { if (..) for (k, step 64) load(next A); for (k, step 16) product; }`
    After:  `for i { for (k, step 64) { if (..) load(next A); for (kk, step 16) product; } }`

    Loops over different ranges share out the loads evenly instead. Legal for loads that run one
    iteration ahead, into a slot that this iteration does not use.
    """
    if has_opaque(loop.body):
        raise NotApplicable(f"loop {loop.var} contains code that is not modelled")
    ahead = Compare("<", var(loop.var) + loop.step, loop.upper)
    for load in loop.body:
        if not isinstance(load, Guard) or load.condition != (ahead,):
            continue
        burst = _burst(load, machine)
        work = _work(loop, load, machine)
        if burst is None or work is None:
            continue
        loads = set(commands(burst.body))
        check_settings(kernel, machine, loads, loop)
        check_constant(kernel, machine, loads, loop)
        check_fences(kernel, machine, loads, loop)
        check_free_rows(kernel, machine, loads, loop)
        fused = (
            _fused(kernel, load, burst, work)
            if _matches(burst, work)
            else _shared_out(kernel, load, burst, work)
        )
        body = tuple(fused if s is work else s for s in loop.body if s is not load)
        return _replaced(kernel, loop, replace(loop, body=body))
    raise NotApplicable(f"loop {loop.var} has no loop of loads before a loop of computation")


def _work(loop: Loop, load: Guard, machine: Machine) -> Loop | None:
    """The first loop after the loads that does more than load."""
    following = loop.body[loop.body.index(load) + 1 :]
    return next((s for s in following if isinstance(s, Loop) and not _burst(s, machine)), None)


def _replaced(kernel: Kernel, old: Loop, new: Loop) -> Kernel:
    return kernel.with_body(rebuilt(kernel.body, lambda s: (new,) if s is old else None))


def _burst(stmt: Guard | Loop, machine: Machine) -> Loop | None:
    """The loop of a statement that only loads, looked for inside one guard."""
    alone = stmt.body if isinstance(stmt, Guard) and not stmt.orelse else (stmt,)
    inner = alone[0] if len(alone) == 1 else None
    if isinstance(inner, Loop) and all(
        machine.unit(c.name) == "load" for c in commands(inner.body)
    ):
        return inner
    return None


def _matches(burst: Loop, work: Loop) -> bool:
    return burst.lower == work.lower and burst.upper == work.upper and burst.step % work.step == 0


def _fused(kernel: Kernel, load: Guard, burst: Loop, work: Loop) -> Loop:
    part = (replace(load, body=burst.body),)
    if burst.step == work.step:
        return replace(work, body=(*at_value(part, burst.var, var(work.var)), *work.body))
    name = fresh_name(kernel, burst.var)
    inner = at_value(work.body, work.var, var(burst.var) + var(name))
    upper = minimum(Expr(burst.step), burst.upper - var(burst.var))
    return replace(
        burst, notes=work.notes, body=(*part, Loop(name, Expr(), upper, work.step, inner))
    )


def _shared_out(kernel: Kernel, load: Guard, burst: Loop, work: Loop) -> Loop:
    """As many of the loads in each iteration of the work as bring all of them in."""
    loads, iterations = (trip_count(s, {}) for s in (burst, work))
    if loads is None or iterations is None or loads < 2:
        raise NotApplicable(f"the loads before loop {work.var} cannot be shared out")
    span = -(-loads // iterations) * burst.step
    turn = quotient(var(work.var) - work.lower, work.step)
    start = burst.lower + turn * span
    name = burst.var if burst.var != work.var else fresh_name(kernel, burst.var)
    part = Loop(
        name,
        start,
        minimum(burst.upper, start + span),
        burst.step,
        at_value(burst.body, burst.var, var(name)),
    )
    return replace(work, body=(replace(load, body=(part,)), *work.body))
