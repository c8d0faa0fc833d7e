"""Merge two nested loops into one, so that each iteration of both has a single successor."""

from __future__ import annotations

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import at_value, env_of, trips
from tilewright.proposers.rewriter.expr import Expr, quotient, remainder, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Kernel,
    Loop,
    has_opaque,
    rebuilt,
    unused_name,
    walk_paths,
)


def coalesce(kernel: Kernel, loop: Loop) -> Kernel:
    """Merge a loop and the only loop inside it into one loop over all of their iterations.

    Before: `for (y = 0; y < 4; y++) for (x = 0; x < 32; x += 16) { load(A[y][x]); use; }`
    After:  `for (yx = 0; yx < 8; yx++) { load(A[yx / 2][yx % 2 * 16]); use; }`

    The order of the iterations does not change, so this is always legal. Alone it saves nothing,
    but slots in turn, loads one iteration ahead and stores one iteration later then continue across
    the end of the inner loop. Applies if both loops have a constant number of iterations and there
    is no code between them.
    """
    above = next(a for s, a in walk_paths(kernel.body) if s is loop)
    new = as_one(kernel, loop, above)
    return kernel.with_body(rebuilt(kernel.body, lambda s: (new,) if s is loop else None))


def as_one(kernel: Kernel, loop: Loop, above: Body) -> Loop:
    """The loop over all iterations of a loop (with the enclosing loops `above`) and of the only
    loop inside it."""
    inner = loop.body[0]
    if len(loop.body) != 1 or not isinstance(inner, Loop) or has_opaque(inner.body):
        raise NotApplicable(f"loop {loop.var} contains more than one loop")
    rounds, count = trips(loop, env_of(above)), trips(inner, env_of((*above, loop)))
    if not _known(loop, rounds) or not _known(inner, count):
        raise NotApplicable(f"the numbers of iterations of loops {loop.var} and {inner.var} vary")
    both = unused_name(kernel, f"{loop.var}{inner.var}")
    position, times = var(both), int(count[0])
    body = at_value(inner.body, inner.var, remainder(position, times) * inner.step + inner.lower)
    body = at_value(body, loop.var, quotient(position, times) * loop.step + loop.lower)
    notes = (*loop.notes, *inner.notes)
    return Loop(both, Expr(), Expr(int(rounds[0]) * times), 1, body, notes)


def _known(loop: Loop, times: tuple[float, float]) -> bool:
    return loop.lower.is_const and times[0] == times[1]
