"""Assigns new rows to the operands of a buffer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tilewright.proposers.rewriter.analysis.buffers import Buffer
from tilewright.proposers.rewriter.expr import Expr, Remainder
from tilewright.proposers.rewriter.ir import (
    Command,
    Kernel,
    Local,
    Operand,
    Stmt,
    rebuilt,
)


def relocated(kernel: Kernel, moves: Iterable[tuple[Buffer, int, int]]) -> Kernel:
    """The kernel in which each buffer has a new base, and its slots a new distance in rows."""
    rows = {
        (a.command, a.operand): _moved_row(a.local.row, buffer, base, stride)
        for buffer, base, stride in moves
        for a in buffer.accesses
    }
    return readdressed(kernel, rows)


def _moved_row(row: Expr, buffer: Buffer, base: int, slot_stride: int) -> Expr:
    slot = slot_term(row, buffer)
    scaled = Expr(
        slot.const // max(1, buffer.slot_stride) * slot_stride,
        tuple((atom, slot_stride) for atom, _ in slot.terms),
    )
    return row + (base - buffer.base) - slot + scaled


def slot_term(row: Expr, buffer: Buffer) -> Expr:
    """The part of a buffer's row that selects the slot; zero if there is only one slot."""
    if buffer.slots == 1:
        return Expr()
    turning = tuple(
        (a, c)
        for a, c in row.terms
        if isinstance(a, Remainder) and (a.by, c) == (buffer.slots, buffer.slot_stride)
    )
    fixed = (row.const - buffer.base) // buffer.slot_stride * buffer.slot_stride
    return Expr(0 if turning else fixed, turning)


def shifted(buffer: Buffer, shift: Expr) -> dict[tuple[Command, int], Expr]:
    """New rows for all accesses of a buffer: the old rows plus a shift."""
    return {(a.command, a.operand): a.local.row + shift for a in buffer.accesses}


def readdressed(kernel: Kernel, rows: Mapping[tuple[Command, int], Expr]) -> Kernel:
    """The kernel in which the rows of some local operands are replaced."""
    new: dict[Stmt, list[Operand]] = {}
    for (command, position), row in rows.items():
        operands = new.setdefault(command, list(command.operands))
        local = operands[position]
        if isinstance(local, Local):
            operands[position] = replace(local, row=row)
    return kernel.with_body(
        rebuilt(
            kernel.body,
            lambda s: (
                (replace(s, operands=tuple(new[s])),)
                if isinstance(s, Command) and s in new
                else None
            ),
        )
    )
