"""The data that commands access, as regions: rows of a local memory, or elements of an array."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from functools import lru_cache

from tilewright.proposers.rewriter.analysis.buffers import Access
from tilewright.proposers.rewriter.analysis.move_settings import (
    block_stride,
    is_streamed,
    operands_of,
    settings_reaching,
)
from tilewright.proposers.rewriter.analysis.region import Region
from tilewright.proposers.rewriter.c_types import SIZES
from tilewright.proposers.rewriter.expr import Expr, bounds, quotient, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Condition,
    Dram,
    Kernel,
    Operand,
    walk,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine

_BLOCK, _LINE = "block'", "line'"
"""Names that cannot be C identifiers."""


def touches(access: Access, kernel: Kernel, machine: Machine) -> Region:
    """All rows of an access."""
    return _local(access, kernel, machine)


def reads(access: Access, kernel: Kernel, machine: Machine) -> Region | None:
    """The rows whose previous contents an access uses; None if it only overwrites."""
    if not access.writes:
        return _local(access, kernel, machine)
    adds = _accumulates(access, machine)
    return None if adds is None else _local(access, kernel, machine, when=adds)


def overwrites(access: Access, kernel: Kernel, machine: Machine) -> Region | None:
    """The rows that a write replaces; None if it is a read or always accumulates."""
    if not access.writes:
        return None
    adds = _accumulates(access, machine)
    if adds == ():
        return None
    return _local(access, kernel, machine, unless=adds)


def _accumulates(access: Access, machine: Machine) -> Condition | None:
    """The condition under which a write accumulates; None if it never does."""
    for flag in access.local.flags:
        if machine.flags.get(flag.name) == "accumulate":
            return flag.when
    return None


def _local(
    access: Access,
    kernel: Kernel,
    machine: Machine,
    when: Condition = (),
    unless: Condition | None = None,
) -> Region:
    command = access.command
    row_columns = machine.spaces[access.local.space].row_columns
    columns = _extent(command, access.operand, "columns", machine)
    rows = _extent(command, access.operand, "rows", machine)
    first = access.local.row
    more: tuple[tuple[str, Expr, Expr], ...] = ()
    if bounds(columns, access.env)[1] > row_columns:
        first = first + var(_BLOCK) * block_stride(kernel, machine, command)
        more = ((_BLOCK, Expr(), quotient(columns + (row_columns - 1), row_columns)),)
    if machine.unit(command.name) == "execute" and not access.writes:
        how = operands_of(kernel.body, machine)
        flips = how.flips(command, access.operand, machine)
        rows = columns if flips else rows
        if flips is None and rows != columns:
            rows = Expr(access.rows)  # an upper bound: it is not known which are local rows
        elif how.stride is not None and is_streamed(command, access.operand, machine):
            rows = (rows - 1) * how.stride + 1
    position = _positions(kernel.body)[command]
    return Region(command, access.above, position, ((first, rows),), more, when, unless)


def array_regions(
    kernel: Kernel, machine: Machine, role: str, only: Set[Command] | None = None
) -> Iterator[tuple[str, Region | None]]:
    """Every array that a command loads (`dram_read`) or stores (`dram_write`), and the accessed
    elements.

    For all commands, or for those in `only`. Elements are counted from the start of the array. The
    region is None if they are not known.
    """
    for stmt, above in walk_paths(kernel.body):
        if isinstance(stmt, Command) and (only is None or stmt in only):
            for position in machine.operands(stmt.name, role):
                operand = stmt.operands[position]
                if isinstance(operand, Dram):
                    yield operand.array, _elements(stmt, operand, above, kernel, machine)


def _elements(
    command: Command, dram: Dram, above: Body, kernel: Kernel, machine: Machine
) -> Region | None:
    array = next(a for a in kernel.arrays if a.name == dram.array)
    stride = _row_distance(command, kernel, machine)
    size = SIZES.get(array.element)
    if stride is None or size is None or stride % size or len(dram.index) > len(array.shape):
        return None
    first = Expr()
    for number, index in enumerate(dram.index):
        first = first + index * math.prod(array.shape[number + 1 :])
    first = first + var(_LINE) * (stride // size)
    local = machine.local_operands(command.name)[0]
    columns = _extent(command, local, "columns", machine)
    rows = _extent(command, local, "rows", machine)
    position = _positions(kernel.body)[command]
    return Region(command, above, position, ((first, columns),), ((_LINE, Expr(), rows),))


def _row_distance(command: Command, kernel: Kernel, machine: Machine) -> int | None:
    """Number of bytes between the rows of a move, if all settings that may be in force agree."""
    found: set[Operand | None] = set()
    for setting in settings_reaching(kernel, machine, command):
        roles = machine.effects[setting.name].operands
        found.add(dict(zip(roles, setting.operands, strict=False)).get("dram_stride"))
    stride = found.pop() if len(found) == 1 else None
    return stride.const if isinstance(stride, Expr) and stride.is_const else None


def _extent(command: Command, operand: int, axis: str, machine: Machine) -> Expr:
    """The given extent, or the largest possible one."""
    at = machine.extent(command.name, operand, axis)
    given = command.operands[at] if at is not None else Expr(1)
    if isinstance(given, Expr):
        return given
    return Expr(int(machine.attribute(command.name, f"max_{axis}") or 1))


@lru_cache(maxsize=256)
def _positions(body: Body) -> Mapping[Command, int]:
    """The position of every command in the text."""
    return {s: n for n, s in enumerate(walk(body)) if isinstance(s, Command)}
