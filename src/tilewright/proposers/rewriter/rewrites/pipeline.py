"""Software pipelining: loads are issued one iteration ahead, and stores one iteration later."""

from __future__ import annotations

import math
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
from tilewright.proposers.rewriter.expr import Expr, quotient, remainder, var
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
    unused_name,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.dependence import check_constant, check_settings
from tilewright.proposers.rewriter.rewrites.multibuffer import multibuffer
from tilewright.proposers.rewriter.rewrites.ordering import (
    check_fences,
    check_loads_ahead,
    check_stores_after,
)
from tilewright.proposers.rewriter.rewrites.plain_buffers import plain


def prefetch(kernel: Kernel, machine: Machine, buffer_name: str, loop: Loop, slots: int) -> Kernel:
    """Issue the loads of the next iteration before the work of this one.

    Before: `for i { load(A[i], slot(i)); use(slot(i)); }`
    After:  `load(A[0], slot(0)); for i { if (i + 16 < M) load(A[i + 16], slot(i + 16)); use(..) }`

    If the buffer has one slot, it first gets several. Legal if the loads are directly in the loop,
    separate from the uses and before them: products may add to loaded values. The loop must not
    store elements that the loads read in another iteration. If an iteration stores data that the
    previous one left in the buffer, the loads come after these stores, at the end of the iteration.
    """
    if _stored_later(find_buffer(kernel, machine, buffer_name), loop, slots, machine):
        return _rotated(kernel, machine, buffer_name, loop)
    kernel, loop = _with_slots(kernel, machine, buffer_name, loop, slots)
    moved = _loads_first(find_buffer(kernel, machine, buffer_name), machine)
    check_settings(kernel, machine, moved, loop)
    check_loads_ahead(kernel, machine, moved, loop)
    ahead, rest = _split(loop, moved, buffer_name)
    first = at_value(ahead, loop.var, loop.lower)
    new = replace(loop, body=(_one_ahead(ahead, loop, buffer_name), *rest))
    return kernel.with_body(rebuilt(kernel.body, lambda s: (*first, new) if s is loop else None))


def prefetch_in_nest(
    kernel: Kernel, machine: Machine, buffer_name: str, loop: Loop, slots: int
) -> Kernel:
    """Issue loads for the next iteration of a loop, or for its first iteration in the next one of
    the enclosing loop.

    Before: `for i { for k { load(A[i][k], slot(i, k)); use(slot(i, k)); } store(C[i]); }`
    After:  `load(A[0][0], slot(0)); for i { for k { n = 4 * i + k + 1; if (n < 16)
    load(A[n / 4][n % 4], slot(n)); use(slot(n - 1)); } store(C[i]); }`

    Iterations are counted over all enclosing loops with constant numbers of iterations. Legal under
    the conditions of `prefetch`, if the outermost of these loops stores no elements that the loads
    read.
    """
    kernel, loop = _with_slots(kernel, machine, buffer_name, loop, slots)
    above = next(a for s, a in walk_paths(kernel.body) if s is loop)
    nest = _counted((*above, loop))
    if len(nest) < 2:
        raise NotApplicable(
            f"the loop around loop {loop.var} does not have a constant number of iterations"
        )
    moved = _loads_first(find_buffer(kernel, machine, buffer_name), machine)
    outermost = nest[0][0]
    check_settings(kernel, machine, moved, outermost)
    check_constant(kernel, machine, moved, outermost)
    check_fences(kernel, machine, moved, outermost)
    ahead, rest = _split(loop, moved, buffer_name)
    number, total = Expr(), 1
    for around, count in reversed(nest):
        number = number + quotient(var(around.var) - around.lower, around.step) * total
        total *= count
    name = unused_name(kernel, "next")
    first, later, inside = ahead, ahead, total
    for around, count in nest:
        first = at_value(first, around.var, around.lower)
        inside //= count
        position = quotient(var(name), inside)
        position = position if around is outermost else remainder(position, count)
        later = at_value(later, around.var, position * around.step + around.lower)
    guarded = Guard(
        (Compare("<", number + 1, Expr(total)),),
        at_value(later, name, number + 1),
        notes=(f"{buffer_name} for the next iteration",),
    )
    new = replace(loop, body=(guarded, *rest))
    inner = rebuilt((outermost,), lambda s: (new,) if s is loop else None)
    return kernel.with_body(
        rebuilt(kernel.body, lambda s: (*first, *inner) if s is outermost else None)
    )


def _counted(path: Body) -> list[tuple[Loop, int]]:
    """The innermost loops of a path with a constant number of iterations, and these numbers."""
    result: list[tuple[Loop, int]] = []
    for position, stmt in reversed(list(enumerate(path))):
        if not isinstance(stmt, Loop) or not stmt.lower.is_const:
            break
        fewest, most = trips(stmt, env_of(path[:position]))
        if fewest != most or not math.isfinite(most):
            break
        result.insert(0, (stmt, int(most)))
    return result


def _loads_first(buffer: Buffer, machine: Machine) -> set[Command]:
    """The loads of a buffer, if they come before all other accesses to it."""
    loads = [a for a in buffer.writers if machine.unit(a.command.name) == "load"]
    if not loads or list(buffer.accesses[: len(loads)]) != loads:
        raise NotApplicable(f"{buffer.name} is not loaded before everything else")
    if reused(buffer):
        raise NotApplicable(f"{buffer.name} is overwritten after it was used")
    return {a.command for a in loads}


def _stored_later(buffer: Buffer, loop: Loop, slots: int, machine: Machine) -> bool:
    """Whether a loop stores data that its previous iteration left in one of the slots."""
    stores = [a for a in buffer.readers if machine.unit(a.command.name) == "store"]
    return buffer.slots == slots and any(
        isinstance(s, Guard) and Compare(">", var(loop.var), loop.lower) in s.condition
        for a in stores
        for s in a.above[a.above.index(loop) + 1 if loop in a.above else len(a.above) :]
    )


def _rotated(kernel: Kernel, machine: Machine, buffer_name: str, loop: Loop) -> Kernel:
    """The loads at the beginning of each iteration, moved to the end of the previous one. Nothing
    else is moved.

    Before: `for i { load(A[i], slot(i)); add(slot(i)); if (i > 0) store(slot(i - 1)); }`
    After:  `load(A[0], slot(0)); for i { add(slot(i)); if (i > 0) store(slot(i - 1));
    if (i + 1 < 4) load(A[i + 1], slot(i + 1)); }`
    """
    buffer = find_buffer(kernel, machine, buffer_name)
    moved = {a.command for a in buffer.writers if machine.unit(a.command.name) == "load"}
    if not moved:
        raise NotApplicable(f"{buffer_name} is not loaded")
    check_settings(kernel, machine, moved, loop)
    check_constant(kernel, machine, moved, loop)
    ahead, rest = _split(loop, moved, buffer_name)
    before = loop.body[: max(loop.body.index(s) for s in ahead)]
    if {a.command for a in buffer.accesses}.intersection(set(commands(before)) - moved):
        raise NotApplicable(f"{buffer_name} is not loaded before everything else")
    check_fences(kernel, machine, moved, loop)
    new = replace(loop, body=(*rest, _one_ahead(ahead, loop, buffer_name)))
    first = at_value(ahead, loop.var, loop.lower)
    return kernel.with_body(rebuilt(kernel.body, lambda s: (*first, new) if s is loop else None))


def _one_ahead(moves: Body, loop: Loop, name: str) -> Guard:
    """The moves of the next iteration, if there is one."""
    following = var(loop.var) + loop.step
    return Guard(
        (Compare("<", following, loop.upper),),
        at_value(moves, loop.var, following),
        notes=(f"{name} for the next iteration",),
    )


def delay_stores(
    kernel: Kernel, machine: Machine, buffer_name: str, loop: Loop, slots: int
) -> Kernel:
    """Store the result of an iteration after the work of the next one.

    Before: `for i { product(slot(i)); store(C[i], slot(i)); }`
    After:  `for i { product(slot(i)); if (i > 0) store(C[i - 16], slot(i - 16)); }  store(last)`

    If the buffer has one slot, it first gets several. Legal if the stores are directly in the loop,
    its number of iterations is known, and it accesses the stored elements nowhere else.
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
    check_stores_after(kernel, machine, stores, loop)
    delayed, rest = _split(loop, stores, buffer_name)
    env = env_of(next(above for s, above in walk_paths(kernel.body) if s is loop))
    if not (loop.lower.is_const and loop.upper.is_const) or trips(loop, env)[0] < 2:
        raise NotApplicable(f"the number of iterations of loop {loop.var} is not known")
    last = Expr(int(entered(env, loop)[loop.var][1]))
    guarded = Guard(
        (Compare(">", var(loop.var), loop.lower),),
        at_value(delayed, loop.var, var(loop.var) - loop.step),
        notes=(f"{buffer.name} of the previous iteration",),
    )
    new = replace(loop, body=(*rest, guarded))
    after = at_value(delayed, loop.var, last)
    return kernel.with_body(rebuilt(kernel.body, lambda s: (new, *after) if s is loop else None))


def _with_slots(
    kernel: Kernel, machine: Machine, buffer_name: str, loop: Loop, slots: int
) -> tuple[Kernel, Loop]:
    """The kernel with this number of slots, and the loop in it. Earlier pipelining is undone."""
    kernel, loop = plain(kernel, machine, buffer_name, loop)
    turning = multibuffer(kernel, machine, buffer_name, loop, slots)
    return turning, same_loop(kernel, turning, loop)


def _split(loop: Loop, moved: set[Command], name: str) -> tuple[Body, Body]:
    """The statements that consist only of `moved` commands, and the others."""
    chosen: list[Stmt] = []
    rest: list[Stmt] = []
    for stmt in loop.body:
        inside = set(commands((stmt,)))
        (chosen if inside and inside <= moved else rest).append(stmt)
        if inside & moved and not inside <= moved:
            raise NotApplicable(f"moves of {name} are mixed with its uses")
    if {c for s in chosen for c in commands((s,))} != moved or not rest:
        raise NotApplicable(f"moves of {name} are not directly in loop {loop.var}")
    if any(isinstance(s, Guard) for s in chosen):
        raise NotApplicable(f"the moves of {name} are already pipelined")
    return tuple(chosen), tuple(rest)
