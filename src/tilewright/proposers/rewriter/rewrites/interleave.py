"""Loads spread over the work they run beside, instead of a burst that fills the load queue."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.rewriter.analysis import at_value
from tilewright.proposers.rewriter.buffers import NotApplicable
from tilewright.proposers.rewriter.expr import Expr, minimum, var
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


def interleave(kernel: Kernel, machine: Machine, loop: Loop) -> Kernel:
    """Fuse a nest of loads in a loop with the work behind it that counts over the same range.

    Before: `for i { if (..) for (k, step 64) load(next A); for (k, step 16) product; }`
    After:  `for i { for (k, step 64) { if (..) load(next A); for (kk, step 16) product; } }`

    Legal for loads that run one iteration ahead, into a slot that this iteration does not use.
    """
    if has_opaque(loop.body):
        raise NotApplicable(f"loop {loop.var} holds code that is not modelled")
    ahead = Compare("<", var(loop.var) + loop.step, loop.upper)
    for load in loop.body:
        if not isinstance(load, Guard) or load.condition != (ahead,):
            continue
        burst = _burst(load, machine)
        if burst is None:
            continue
        for work in loop.body[loop.body.index(load) + 1:]:
            if isinstance(work, Loop) and _matches(burst, work) and not _burst(work, machine):
                fused = _fused(kernel, load, burst, work)
                body = tuple(fused if s is work else s for s in loop.body if s is not load)
                new = replace(loop, body=body)
                return _replaced(kernel, loop, new)
    raise NotApplicable(f"loop {loop.var} has no burst of loads before work over the same range")


def _replaced(kernel: Kernel, old: Loop, new: Loop) -> Kernel:
    return kernel.with_body(rebuilt(kernel.body, lambda s: (new,) if s is old else None))


def _burst(stmt: Guard | Loop, machine: Machine) -> Loop | None:
    """The loop of a statement that only loads, looked for inside one guard."""
    inner = stmt.body[0] if isinstance(stmt, Guard) else stmt
    alone = isinstance(stmt, Loop) or (len(stmt.body) == 1 and not stmt.orelse)
    if alone and isinstance(inner, Loop) and all(
            machine.unit(c.name) == "load" for c in commands(inner.body)):
        return inner
    return None


def _matches(burst: Loop, work: Loop) -> bool:
    return (burst.lower == work.lower and burst.upper == work.upper
            and burst.step % work.step == 0)


def _fused(kernel: Kernel, load: Guard, burst: Loop, work: Loop) -> Loop:
    part = (replace(load, body=burst.body),)
    if burst.step == work.step:
        inner = at_value(work.body, work.var, var(burst.var))
        return replace(burst, body=(*part, *inner), notes=())
    name = fresh_name(kernel, burst.var)
    inner = at_value(work.body, work.var, var(burst.var) + var(name))
    upper = minimum(Expr(burst.step), burst.upper - var(burst.var))
    return replace(burst, notes=work.notes,
                   body=(*part, Loop(name, Expr(), upper, work.step, inner)))

