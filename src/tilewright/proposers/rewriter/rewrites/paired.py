"""Puts a command that latches an operand directly before the product that uses it."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.rewriter.analysis.buffers import Buffer, NotApplicable, find_buffers
from tilewright.proposers.rewriter.ir import Body, Command, Guard, Kernel, Loop, Stmt
from tilewright.proposers.rewriter.machine import Machine

MOVES = ("load", "store")


def paired(kernel: Kernel, machine: Machine) -> Kernel:
    """Move loads and stores from between a latched operand and its product to before both.

    Before: `preload(SPAD(64), ACC(0)); load(A[16], SPAD(16)); product(SPAD(0));`
    After:  `load(A[16], SPAD(16)); preload(SPAD(64), ACC(0)); product(SPAD(0));`

    The rewrites then move each product as a whole. Legal if none of these moves fills rows that the
    latching command reads; a product that has such moves inside stays as it is.
    """
    try:
        buffers = find_buffers(kernel, machine)
    except NotApplicable:
        return kernel
    body = _paired(kernel.body, machine, buffers)
    return kernel if body == kernel.body else kernel.with_body(body)


def _paired(body: Body, machine: Machine, buffers: list[Buffer]) -> Body:
    result = list(body)
    for at in reversed(range(len(result))):
        stmt = result[at]
        if isinstance(stmt, Loop):
            result[at] = replace(stmt, body=_paired(stmt.body, machine, buffers))
        elif isinstance(stmt, Guard):
            ways = (_paired(b, machine, buffers) for b in (stmt.body, stmt.orelse))
            result[at] = replace(stmt, body=next(ways), orelse=next(ways))
        elif moves := _moves_after(tuple(result[at:]), machine):
            read = [b for b in buffers if any(a.command is stmt for a in b.readers)]
            if not any(a.command in moves for b in read for a in b.writers):
                result[at : at + len(moves) + 1] = [*moves, stmt]
    return tuple(result)


def _moves_after(body: Body, machine: Machine) -> list[Stmt]:
    """The loads and stores between the first statement, if it latches, and the product after
    them."""
    if not isinstance(body[0], Command) or not machine.attribute(body[0].name, "latches"):
        return []
    moves: list[Stmt] = []
    for stmt in body[1:]:
        if not isinstance(stmt, Command):
            return []
        if machine.unit(stmt.name) not in MOVES:
            return moves if machine.attribute(stmt.name, "uses") else []
        moves.append(stmt)
    return []
