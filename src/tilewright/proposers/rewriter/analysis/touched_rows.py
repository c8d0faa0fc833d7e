"""Finds the local rows that commands in straight-line code read and write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import (
    env_of,
)
from tilewright.proposers.rewriter.analysis.settings import own_setting
from tilewright.proposers.rewriter.expr import Expr, bounds
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Local,
    Operand,
)
from tilewright.proposers.rewriter.machine import Machine


@dataclass(frozen=True, slots=True)
class Touch:
    """Local rows that an operand of a command reads or writes. An accumulating write also reads
    them."""

    command: Command
    operand: int
    local: Local
    rows: frozenset[int]
    writes: bool
    adds: bool


def constant(operand: Operand, what: str) -> int:
    """An operand that is a number."""
    if isinstance(operand, Expr) and operand.is_const:
        return operand.const
    raise NotApplicable(f"{what} is not a constant")


@lru_cache(maxsize=8192)
def touches(command: Command, machine: Machine) -> tuple[Touch, ...]:
    """The accesses of a command in a block to local rows, which must be constants.

    It is assumed that the array reads operands without strides and not transposed: `block_of`
    refuses other kernels.
    """
    result = []
    roles = machine.effects[command.name].operands
    for position in machine.local_operands(command.name):
        local = command.operands[position]
        if not isinstance(local, Local):
            continue
        first = constant(local.row, f"a local row of {command.name}")
        sizes = []
        for axis in ("columns", "rows"):
            at = machine.extent(command.name, position, axis)
            sizes.append(1 if at is None else constant(command.operands[at], f"the {axis}"))
        width = machine.spaces[local.space].row_columns
        stride = _blocks_apart(command, machine)
        rows = frozenset(
            first + block * stride + row
            for block in range(-(-sizes[0] // width))
            for row in range(sizes[1])
        )
        if any(flag.when for flag in local.flags):
            raise NotApplicable("whether a write adds depends on a loop")
        writes = roles[position] == "local_write"
        adds = writes and any(machine.flags[f.name] == "accumulate" for f in local.flags)
        result.append(Touch(command, position, local, rows, writes, adds))
    return tuple(result)


def touches_anywhere(command: Command, above: Body, machine: Machine) -> Sequence[Touch]:
    """The rows that a command in loops accesses in any iteration, or more."""
    env = env_of(above)

    def most(operand: Operand) -> Operand:
        high = bounds(operand, env)[1] if isinstance(operand, Expr) else 0.0
        return Expr(int(high)) if isinstance(operand, Expr) and math.isfinite(high) else operand

    operands: list[Operand] = []
    spans: dict[int, int] = {}
    for position, operand in enumerate(command.operands):
        if isinstance(operand, Local):
            low, high = bounds(operand.row, env)
            if not (math.isfinite(low) and math.isfinite(high)):
                raise NotApplicable("a local address has no bounds")
            spans[position] = int(high - low)
            operands.append(Local(operand.space, Expr(int(low))))
        else:
            operands.append(most(operand))
    widest = touches(replace(command, operands=tuple(operands)), machine)
    return [
        replace(t, rows=frozenset(range(min(t.rows), max(t.rows) + spans[t.operand] + 1)))
        for t in widest
    ]


def _blocks_apart(command: Command, machine: Machine) -> int:
    if machine.unit(command.name) in ("load", "store"):
        stride = own_setting(command, machine).get("block_stride")
        if stride is not None:
            return constant(stride, "the block stride")
    return int(machine.attribute(command.name, "max_rows") or 1)
