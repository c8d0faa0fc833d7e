"""Places neighbouring parts of a buffer in different banks, so that a part can be moved while the
next one is used."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from tilewright.proposers.rewriter.analysis.addresses import readdressed
from tilewright.proposers.rewriter.analysis.buffers import (
    Access,
    Buffer,
    NotApplicable,
    find_buffer,
    find_buffers,
)
from tilewright.proposers.rewriter.analysis.placement import ELSEWHERE, placed
from tilewright.proposers.rewriter.analysis.polyhedra import meet
from tilewright.proposers.rewriter.analysis.ranges import labelled_loops, loops_in
from tilewright.proposers.rewriter.analysis.region import Region
from tilewright.proposers.rewriter.analysis.regions import touches
from tilewright.proposers.rewriter.expr import Expr, bounds, quotient, remainder, var
from tilewright.proposers.rewriter.ir import Command, Kernel, Loop
from tilewright.proposers.rewriter.machine import Machine

BANKS = 2
"""Number of banks that parts use in turn."""


def alternate_banks(kernel: Kernel, machine: Machine, buffer_name: str, loop: Loop) -> Kernel:
    """Let the parts of a buffer that the iterations of a loop write lie in different banks in turn.

    Before: `for (p = 0; p < 8; p++) load(B[p], SPAD(16 * p));  for p use(SPAD(16 * p));`
    After:  `for p load(B[p], SPAD(4096 * (p % 2) + 16 * (p / 2)));  for p use(the same rows);`

    Loads that are issued during the loop of products then do not write the bank that it reads, and
    stores do not read the bank to which it adds. Always legal, because only the rows of the buffer
    change. Applies if each access is known to use rows of one part, and the banks have room.
    """
    buffer = find_buffer(kernel, machine, buffer_name)
    if buffer.slots > 1:
        raise NotApplicable(f"{buffer_name} already has several slots")
    part = _rows_of_part(buffer, loop)
    parts = math.ceil(buffer.rows / part)
    half = math.ceil(parts / BANKS) * part
    rows: dict[tuple[Command, int], Expr] = {}
    for access in buffer.accesses:
        number, rest = _split(access, buffer, part, kernel, machine)
        place = quotient(number, BANKS) * part + remainder(number, BANKS) * half
        rows[access.command, access.operand] = rest + place + (ELSEWHERE - buffer.base)
    apart = placed(readdressed(kernel, rows), machine)
    space = machine.spaces[buffer.space]
    slots = find_buffer(apart, machine, buffer_name).intervals()
    banks = [range(low // space.bank_rows, -(-high // space.bank_rows)) for low, high in slots]
    if len(banks) != BANKS or set(banks[0]) & set(banks[1]):
        raise NotApplicable(f"no two banks have room for {buffer_name}")
    return apart


def parts_in_loops(kernel: Kernel, machine: Machine) -> Iterator[tuple[str, str]]:
    """Buffers with the loops whose iterations write different parts of them."""
    for buffer in find_buffers(kernel, machine):
        for label, loop, _ in labelled_loops(kernel.body):
            try:
                _rows_of_part(buffer, loop)
            except NotApplicable:
                continue
            yield buffer.name, label


def _rows_of_part(buffer: Buffer, loop: Loop) -> int:
    """The distance in rows between the parts that neighbouring iterations write."""
    found = {
        a.local.row.coefficient(loop.var) * loop.step for a in buffer.writers if loop in a.above
    }
    part = found.pop() if len(found) == 1 else 0
    if not 0 < part < buffer.rows:
        raise NotApplicable(f"iterations of loop {loop.var} do not write parts of {buffer.name}")
    return part


def _split(
    access: Access, buffer: Buffer, part: int, kernel: Kernel, machine: Machine
) -> tuple[Expr, Expr]:
    """The number of the part that an access uses, and its row in the first part."""
    row, number, start = access.local.row, Expr(), Expr()
    for loop in loops_in(access.above):
        if row.coefficient(loop.var) * loop.step == part and loop.lower.is_const:
            number = quotient(var(loop.var) - loop.lower, loop.step)
            start = (var(loop.var) - loop.lower) * (part // loop.step)
            break
    low = bounds(row - start, access.env)[0]
    if not math.isfinite(low):
        raise NotApplicable(f"the rows of {access.command.name} have no bounds")
    before = (int(low) - buffer.base) // part
    region = touches(access, kernel, machine)
    ((first, extent),) = region.dims
    inside = replace(region, dims=((first - start, extent),))
    beyond = Expr(buffer.base + (before + 1) * part)
    if meet(inside, Region(access.command, (), 0, ((beyond, Expr(ELSEWHERE)),))):
        raise NotApplicable(f"{access.command.name} uses rows of several parts of {buffer.name}")
    return number + before, row - start - before * part
