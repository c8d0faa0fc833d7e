"""Gives separate rows to each part of a kernel that fills a buffer again."""

from __future__ import annotations

from tilewright.proposers.rewriter.analysis.addresses import readdressed, shifted
from tilewright.proposers.rewriter.analysis.buffers import (
    Access,
    Buffer,
    NotApplicable,
    find_buffers,
)
from tilewright.proposers.rewriter.analysis.placement import ELSEWHERE, placed
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import Body, Command, Kernel, Loop, Stmt
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.dependence import uses_older

MOST_ACCESSES = 64
"""Maximum number of accesses to a buffer for which its parts are searched, because each is compared
with all later ones."""


def separated(kernel: Kernel, machine: Machine) -> Kernel:
    """Give each loop that shares rows with an earlier one, but no values, separate rows.

    Before: `for i { load(&A[i], SPAD(0)); .. }  for i { load(&T[i], SPAD(0)); .. }`
    After:  `for i { load(&A[i], SPAD(0)); .. }  for i { load(&T[i], SPAD(16)); .. }`

    Two consecutive products then have two buffers, and keeping data of one does not depend on the
    other. A buffer is not split if its parts do not fit at the same time, or if code that is not
    modelled may use its rows.
    """
    for name in [b.name for b in find_buffers(kernel, machine)]:
        buffer = next((b for b in find_buffers(kernel, machine) if b.name == name), None)
        if buffer is None:
            continue
        rows: dict[tuple[Command, int], Expr] = {}
        for number, part in enumerate(_parts(kernel, buffer, machine)[1:], start=1):
            new = shifted(buffer, Expr(ELSEWHERE * number - buffer.base))
            rows |= {(a.command, a.operand): new[a.command, a.operand] for a in part}
        if rows:
            try:
                kernel = placed(readdressed(kernel, rows), machine)
            except NotApplicable:
                continue
    return kernel


def _parts(kernel: Kernel, buffer: Buffer, machine: Machine) -> list[list[Access]]:
    """The accesses of a buffer, divided before each loop after which no older values are used.

    The first part may also begin with a single command.
    """
    statements, around = _by_statement(kernel.body, buffer)
    if len(buffer.accesses) > MOST_ACCESSES:
        return [list(buffer.accesses)]
    parts: list[list[Access]] = []
    for number, (stmt, inside) in enumerate(statements):
        rest = [a for _, accesses in statements[number:] for a in accesses]
        begins = isinstance(stmt, Loop) or not number
        anew = begins and not uses_older(kernel, rest, around, machine)
        if around is not None and not number and not anew:
            return [list(buffer.accesses)]  # it may use values of the previous iteration
        if anew or not parts:
            parts.append([])
        parts[-1].extend(inside)
    return parts


def _by_statement(
    body: Body, buffer: Buffer, around: Loop | None = None
) -> tuple[list[tuple[Stmt, list[Access]]], Loop | None]:
    """The statements that use a buffer, each with its accesses, and the innermost enclosing
    loop."""
    found = []
    for stmt in body:
        inside = [a for a in buffer.accesses if stmt is a.command or stmt in a.above]
        if inside:
            found.append((stmt, inside))
    if len(found) == 1 and isinstance(found[0][0], Loop):
        return _by_statement(found[0][0].body, buffer, found[0][0])
    return found, around
