"""Overlapping windows: neighbouring iterations that load nearly the same rows of an array."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.rewriter.analysis import at_value
from tilewright.proposers.rewriter.buffers import Access, Buffer
from tilewright.proposers.rewriter.expr import Expr, bounds, minimum, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Dram,
    Kernel,
    Local,
    Loop,
    commands,
    fresh_name,
    names_in,
    rebuilt,
)
from tilewright.proposers.rewriter.machine import Machine


def find_window(
    kernel: Kernel, machine: Machine, buffer: Buffer, loops: list[Loop]
) -> tuple[Loop, int] | None:
    """A loop whose iterations load rows one further each, and by how many rows in all.

    The rows of a move must be the array's rows: the move's setting steps by one of them.
    """
    for loop in loops:
        span = loop.upper - loop.lower
        if (
            loop.step == 1
            and loop.lower.is_const
            and span.is_const
            and buffer.slots == 1
            and all(_slides(kernel, machine, buffer, a, loop) for a in buffer.writers)
        ):
            return loop, span.const - 1
    return None


def load_windows(kernel: Kernel, machine: Machine, loads: Body, loop: Loop, more: int) -> Body:
    """The loads of one iteration, with the rows of all the others.

    Before: `for t { load(&A[x + t][c], SPAD(t), 16, 14); }`
    After:  `load(&A[x][c], SPAD(0), 16, 16);`
    """
    piece = fresh_name(kernel, "rows")
    loads = at_value(loads, loop.var, loop.lower)
    new = {c: _in_pieces(c, piece, more, machine) for c in commands(loads)}
    return rebuilt(loads, lambda s: (new[s],) if isinstance(s, Command) else None)


def _in_pieces(command: Command, name: str, more: int, machine: Machine) -> Loop:
    """A load with more rows, in as many moves as it takes."""
    most = int(machine.attribute(command.name, "max_rows") or 1)
    at = machine.effects[command.name].operands.index("rows")
    rows = command.operands[at]
    assert isinstance(rows, Expr)
    operands = list(command.operands)
    for position, operand in enumerate(operands):
        if isinstance(operand, Local):
            operands[position] = replace(operand, row=operand.row + var(name))
        elif isinstance(operand, Dram):
            index = list(operand.index)
            index[-2] = index[-2] + var(name)
            operands[position] = replace(operand, index=tuple(index))
    operands[at] = minimum(Expr(most), rows + more - var(name))
    return Loop(name, Expr(), rows + more, most, (replace(command, operands=tuple(operands)),))


def _slides(kernel: Kernel, machine: Machine, buffer: Buffer, load: Access, loop: Loop) -> bool:
    """Whether a load moves along the rows of its array with a loop, and only by that."""
    command = load.command
    roles = machine.effects[command.name].operands
    dram = next((o for o in command.operands if isinstance(o, Dram)), None)
    if dram is None or len(dram.index) < 2 or "rows" not in roles:
        return False
    rows = command.operands[roles.index("rows")]
    along = dram.index[-2] - var(loop.var)
    index = (*dram.index[:-2], along, dram.index[-1])
    others = replace(
        command,
        operands=tuple(replace(dram, index=index) if o is dram else o for o in command.operands),
    )
    return (
        loop.var not in names_in(others)
        and isinstance(rows, Expr)
        and bounds(rows, load.env)[1] == buffer.rows
        and _steps_by_rows(kernel, machine, command, dram)
    )


def _steps_by_rows(kernel: Kernel, machine: Machine, command: Command, dram: Dram) -> bool:
    """Whether every setting for this load steps by one row of the array."""
    width = next(a.shape[-1:] for a in kernel.arrays if a.name == dram.array)
    found = []
    for setting in commands(kernel.body):
        if setting.name == machine.attribute(command.name, "configured_by"):
            roles = machine.effects[setting.name].operands
            given = dict(zip(roles, setting.operands, strict=False))
            if given.get("id") == Expr(int(machine.attribute(command.name, "id") or 0)):
                found.append(given.get("dram_stride"))
    return bool(found and width) and all(stride == Expr(width[0]) for stride in found)
