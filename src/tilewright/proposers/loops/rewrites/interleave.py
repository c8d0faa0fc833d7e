"""Moves loads of register commands to just before their first use.

Before::

    load(4, &A[i][k]);  load(5, &A[i + 16][k]);  load(6, &B[k][j]);  load(7, &B[k][j + 16]);
    multiply(0, 4, 6);  multiply(1, 4, 7);  multiply(2, 5, 6);  multiply(3, 5, 7);

After::

    load(4, &A[i][k]);  load(6, &B[k][j]);  multiply(0, 4, 6);
    load(7, &B[k][j + 16]);  multiply(1, 4, 7);
    load(5, &A[i + 16][k]);  multiply(2, 5, 6);
    multiply(3, 5, 7);
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.ir import Command, Kernel, Statement, loops, with_loop
from tilewright.proposers.loops.rewrites.registers import is_load, registers_of


def interleave(kernel: Kernel, number: int) -> Kernel:
    """The kernel in which the loads of innermost loop `number` are delayed. Raises
    `NotApplicableError`."""
    loop = loops(kernel)[number]
    if not loop.body or not all(isinstance(s, Command) for s in loop.body):
        raise NotApplicableError("the loop contains code other than commands")
    body = _put_off(tuple(s for s in loop.body if isinstance(s, Command)))
    if body == loop.body:
        raise NotApplicableError("every load is already just before its first use")
    return with_loop(kernel, number, (replace(loop, body=body),))


def _put_off(body: tuple[Command, ...]) -> tuple[Statement, ...]:
    """Loads are delayed until the first command that uses their register or may write memory."""
    found: list[Statement] = []
    waiting: list[Command] = []
    for command in body:
        used = registers_of(command)
        general = not used or "dram_write" in command.roles
        due = [w for w in waiting if general or used & registers_of(w)]
        found += due
        waiting = [w for w in waiting if w not in due]
        if is_load(command):
            waiting.append(command)
        else:
            found.append(command)
    return (*found, *waiting)
