"""Gives a buffer several slots, so that neighbouring iterations do not wait for one another."""

from __future__ import annotations

from tilewright.proposers.rewriter.analysis.addresses import readdressed, shifted
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, find_buffer
from tilewright.proposers.rewriter.analysis.placement import ELSEWHERE, placed
from tilewright.proposers.rewriter.analysis.ranges import env_of, loops_in, trip_count
from tilewright.proposers.rewriter.expr import Expr, quotient, remainder, var
from tilewright.proposers.rewriter.ir import Body, Kernel, Loop
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.dependence import check_private
from tilewright.proposers.rewriter.rewrites.plain_buffers import plain


def multibuffer(
    kernel: Kernel, machine: Machine, buffer_name: str, loop: Loop, slots: int
) -> Kernel:
    """Use the slots of a buffer in turn, one per iteration of a loop.

    Before: `for i { load(.., SPAD(k)); use(SPAD(k)); }`
    After:  `for i { slot = i / 16 % 2; load(.., SPAD(4096 * slot + k)); use(..); }`

    Slots get different banks if they fit. Legal if no value stays in the buffer from one iteration
    to the next and all uses are inside the loop.
    """
    kernel, loop = plain(kernel, machine, buffer_name, loop)
    buffer = find_buffer(kernel, machine, buffer_name)
    check_private(kernel, buffer, loop, machine)
    number = iteration_number(loop, buffer.accesses[0].above, slots)
    turn = remainder(number, slots)
    if turn.is_const:
        raise NotApplicable(f"loop {loop.var} runs once")
    shift = turn * buffer.rows + (ELSEWHERE - buffer.base)
    return placed(readdressed(kernel, shifted(buffer, shift)), machine)


def iteration_number(loop: Loop, above: Body, slots: int) -> Expr:
    """The number of earlier iterations, counted over the enclosing loops too.

    Outer loops are ignored once the inner ones have a multiple of `slots` iterations, because then
    the first slot is used again at their beginning.
    """
    around = loops_in(above)
    env = env_of(above)
    number, product = Expr(), 1
    for outer in reversed(around[: around.index(loop) + 1]):
        count = trip_count(outer, env)
        number = number + quotient(var(outer.var) - outer.lower, outer.step) * product
        if count is None or count * product % slots == 0:
            break
        product *= count
    return number
