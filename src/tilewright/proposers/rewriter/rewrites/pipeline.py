"""Software pipelining: loads one iteration ahead, stores one iteration later."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.rewriter.analysis.buffers import (
    Buffer,
    NotApplicable,
    find_buffer,
    reused,
)
from tilewright.proposers.rewriter.analysis.ranges import (
    at_value,
    entered,
    env_of,
    same_loop,
    trips,
)
from tilewright.proposers.rewriter.expr import Expr, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Compare,
    Guard,
    Kernel,
    Loop,
    Stmt,
    commands,
    rebuilt,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.dependence import check_settings
from tilewright.proposers.rewriter.rewrites.multibuffer import multibuffer
from tilewright.proposers.rewriter.rewrites.ordering import check_loads_ahead, check_stores_behind
from tilewright.proposers.rewriter.rewrites.undo import plain


def prefetch(kernel: Kernel, machine: Machine, buffer_name: str, loop: Loop, slots: int) -> Kernel:
    """Issue the loads of the next iteration before the work of this one.

    Before: `for i { load(A[i], slot(i)); use(slot(i)); }`
    After:  `load(A[0], slot(0)); for i { if (i + 16 < M) load(A[i + 16], slot(i + 16)); use(..) }`

    Gives the buffer its slots first if it has one. Legal when the loads stand directly in the
    loop, apart from the uses, and before them: products may add to what was loaded. The loop must
    not store what they fetch in another iteration.
    """
    kernel, loop = _with_slots(kernel, machine, buffer_name, loop, slots)
    buffer = find_buffer(kernel, machine, buffer_name)
    loads = [a for a in buffer.writers if machine.unit(a.command.name) == "load"]
    if not loads or list(buffer.accesses[: len(loads)]) != loads:
        raise NotApplicable(f"{buffer_name} is not loaded before everything else")
    if reused(buffer):
        raise NotApplicable(f"{buffer_name} is overwritten after it was used")
    moved = {a.command for a in loads}
    check_settings(kernel, machine, moved, loop)
    check_loads_ahead(kernel, machine, moved, loop)
    ahead, rest = _split(loop, moved, buffer)
    first = at_value(ahead, loop.var, loop.lower)
    next_value = var(loop.var) + loop.step
    guarded = Guard(
        (Compare("<", next_value, loop.upper),),
        at_value(ahead, loop.var, next_value),
        notes=(f"{buffer.name} for the next iteration",),
    )
    new = replace(loop, body=(guarded, *rest))
    return kernel.with_body(rebuilt(kernel.body, lambda s: (*first, new) if s is loop else None))


def delay_stores(
    kernel: Kernel, machine: Machine, buffer_name: str, loop: Loop, slots: int
) -> Kernel:
    """Store the result of an iteration after the work of the next one.

    Before: `for i { product(slot(i)); store(C[i], slot(i)); }`
    After:  `for i { product(slot(i)); if (i > 0) store(C[i - 16], slot(i - 16)); }  store(last)`

    Gives the buffer its slots first if it has one. Legal when the stores stand directly in the
    loop, its number of iterations is known, and it touches what they store nowhere else.
    """
    kernel, loop = _with_slots(kernel, machine, buffer_name, loop, slots)
    buffer = find_buffer(kernel, machine, buffer_name)
    stores = {a.command for a in buffer.readers if machine.unit(a.command.name) == "store"}
    if not stores:
        raise NotApplicable(f"{buffer_name} is not stored")
    last_write = max(i for i, a in enumerate(buffer.accesses) if a.writes)
    if any(a.command in stores for a in buffer.accesses[:last_write]):
        raise NotApplicable(f"{buffer_name} is overwritten after it was stored")
    check_settings(kernel, machine, stores, loop)
    check_stores_behind(kernel, machine, stores, loop)
    delayed, rest = _split(loop, stores, buffer)
    env = env_of(next(above for s, above in walk_paths(kernel.body) if s is loop))
    if not (loop.lower.is_const and loop.upper.is_const) or trips(loop, env)[0] < 2:
        raise NotApplicable(f"the number of iterations of loop {loop.var} is not known")
    last = Expr(int(entered(env, loop)[loop.var][1]))
    guarded = Guard(
        (Compare(">", var(loop.var), loop.lower),),
        at_value(delayed, loop.var, var(loop.var) - loop.step),
        notes=(f"{buffer.name} of the iteration before",),
    )
    new = replace(loop, body=(*rest, guarded))
    after = at_value(delayed, loop.var, last)
    return kernel.with_body(rebuilt(kernel.body, lambda s: (new, *after) if s is loop else None))


def _with_slots(
    kernel: Kernel, machine: Machine, buffer_name: str, loop: Loop, slots: int
) -> tuple[Kernel, Loop]:
    """The kernel with that many slots, and the loop in it; any older pipelining is undone."""
    kernel, loop = plain(kernel, machine, buffer_name, loop)
    turning = multibuffer(kernel, machine, buffer_name, loop, slots)
    return turning, same_loop(kernel, turning, loop)


def _split(loop: Loop, moved: set[Command], buffer: Buffer) -> tuple[Body, Body]:
    """The statements made of `moved` commands only, and the others."""
    chosen: list[Stmt] = []
    rest: list[Stmt] = []
    for stmt in loop.body:
        inside = set(commands((stmt,)))
        (chosen if inside and inside <= moved else rest).append(stmt)
        if inside & moved and not inside <= moved:
            raise NotApplicable(f"moves of {buffer.name} are mixed with its uses")
    if {c for s in chosen for c in commands((s,))} != moved or not rest:
        raise NotApplicable(f"moves of {buffer.name} do not stand directly in loop {loop.var}")
    if any(isinstance(s, Guard) for s in chosen):
        raise NotApplicable(f"the moves of {buffer.name} are already pipelined")
    return tuple(chosen), tuple(rest)
