"""Finds logical buffers: groups of local addresses that access the same rows.

A buffer may have several slots. Its addresses then contain one remainder, `slot_stride * (e %
slots)`, and each slot has `rows` rows. A buffer has the name of the array from or to which it is
moved, so that plans are understandable.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tilewright.proposers.rewriter.analysis.core_functions import issuing
from tilewright.proposers.rewriter.analysis.move_settings import (
    block_strides,
    default_stride,
    is_streamed,
    operands_of,
)
from tilewright.proposers.rewriter.analysis.ranges import Env, env_of
from tilewright.proposers.rewriter.expr import Expr, Remainder, Var, bounds
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Dram,
    Kernel,
    Local,
    Loop,
    Opaque,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine

ONE = Expr(1)
"""A single row or column."""
MAX_SLOTS = 8
"""Remainders by larger numbers are offsets, not slots."""


class NotApplicable(Exception):
    """A rewrite is not possible at this place; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Access:
    """One local operand of a command, with its position and the rows that it may access."""

    command: Command
    operand: int
    writes: bool
    local: Local
    rows: int
    above: Body

    @property
    def env(self) -> Env:
        """Ranges of the enclosing loops."""
        return env_of(self.above)


@dataclass(frozen=True, slots=True)
class Buffer:
    """Rows `base`..`base + rows` of a local memory (for each slot), and their accesses."""

    name: str
    space: str
    base: int
    rows: int
    accesses: tuple[Access, ...]
    slots: int = 1
    slot_stride: int = 0

    @property
    def writers(self) -> tuple[Access, ...]:
        """Accesses that write."""
        return tuple(a for a in self.accesses if a.writes)

    @property
    def readers(self) -> tuple[Access, ...]:
        """Accesses that read."""
        return tuple(a for a in self.accesses if not a.writes)

    def intervals(self) -> list[tuple[int, int]]:
        """The used rows, as one half-open interval for each slot."""
        starts = [self.base + s * self.slot_stride for s in range(self.slots)]
        return [(s, s + self.rows) for s in starts]


def find_buffers(kernel: Kernel, machine: Machine) -> list[Buffer]:
    """All buffers in the order of their first use; `NotApplicable` if an address has no bounds."""
    return list(buffers_of(kernel.body, machine))


@lru_cache(maxsize=2048)
def buffers_of(body: Body, machine: Machine) -> tuple[Buffer, ...]:
    """The buffers of any kernel with this body, which are found once for each body."""
    found = list(accesses(body, machine))
    touched = [_intervals(a) for a in found]
    groups: dict[int, tuple[list[Access], list[tuple[int, int]]]] = {}
    for access, rows, first in zip(found, touched, _first_sharers(found, touched), strict=True):
        members, intervals = groups.setdefault(first, ([], []))
        members.append(access)
        intervals.extend(rows)
    taken: dict[str, int] = {}
    return tuple(_buffer(members, rows, taken) for members, rows in groups.values())


def _first_sharers(found: list[Access], touched: list[list[tuple[int, int]]]) -> list[int]:
    """For each access, the first access with which it shares rows, directly or through others."""
    first = list(range(len(found)))

    def root(of: int) -> int:
        while first[of] != of:
            first[of] = of = first[first[of]]
        return of

    everywhere = sorted(
        (access.local.space, low, high, number)
        for number, (access, rows) in enumerate(zip(found, touched, strict=True))
        for low, high in rows
    )
    end = ("", 0, 0)  # memory, end and access of the interval with the largest end so far
    for space, low, high, number in everywhere:
        if end[0] == space and low < end[1]:
            one, other = sorted((root(number), root(end[2])))
            first[other] = one
        if end[0] != space or high > end[1]:
            end = (space, high, number)
    return [root(number) for number in range(len(found))]


def find_buffer(kernel: Kernel, machine: Machine, name: str) -> Buffer:
    """The buffer with this name."""
    buffers = _by_name(kernel.body, machine)
    if name not in buffers:
        known = ", ".join(buffers) or "none"
        raise NotApplicable(f"there is no buffer {name} (buffers: {known})")
    return buffers[name]


@lru_cache(maxsize=256)
def _by_name(body: Body, machine: Machine) -> Mapping[str, Buffer]:
    return {b.name: b for b in buffers_of(body, machine)}


@lru_cache(maxsize=1024)
def accesses(body: Body, machine: Machine) -> Sequence[Access]:
    """Every local operand of every command, in the order of the text; found once for each body."""
    return tuple(_accesses(body, machine))


def _accesses(body: Body, machine: Machine) -> Iterator[Access]:
    strides = block_strides(body, machine)
    for stmt, above in walk_paths(body):
        if isinstance(stmt, Command):
            roles = machine.effects[stmt.name].operands
            for position in machine.local_operands(stmt.name):
                operand = stmt.operands[position]
                if isinstance(operand, Local):
                    rows = _extent(stmt, position, operand, above, machine, strides)
                    if machine.unit(stmt.name) == "execute" and roles[position] == "local_read":
                        rows = _streamed(stmt, position, rows, above, body, machine)
                    yield Access(
                        stmt, position, roles[position] == "local_write", operand, rows, above
                    )


def check_all_commands_known(kernel: Kernel, machine: Machine) -> None:
    """Raise `NotApplicable` if unrecognised code may issue commands itself.

    This is possible if it names a command or an address, or a function or macro of the file that
    does. The rows and settings on which such code depends are not known, so they must not change.
    """
    for stmt, _ in walk_paths(kernel.body):
        if isinstance(stmt, Opaque) and stmt.names & issuing(kernel.before + kernel.after, machine):
            raise NotApplicable(f"the code on line {stmt.line} is not recognised: {stmt.reason}")


def _extent(
    command: Command,
    position: int,
    local: Local,
    above: Body,
    machine: Machine,
    strides: dict[tuple[str, str], int],
) -> int:
    """Maximum number of rows that an access may touch."""
    row_columns = machine.spaces[local.space].row_columns
    sizes = []
    for axis in ("columns", "rows"):
        at = machine.extent(command.name, position, axis)
        operand = command.operands[at] if at is not None else ONE
        limit = float(machine.attribute(command.name, f"max_{axis}") or math.inf)
        if not isinstance(operand, Expr):
            sizes.append(limit)
        elif operand.is_const:
            sizes.append(min(operand.const, limit))
        else:
            sizes.append(min(bounds(operand, env_of(above))[1], limit))
    if not all(math.isfinite(s) for s in sizes):
        raise NotApplicable(f"the extent of {command.name} has no bound")
    key = (
        machine.attribute(command.name, "configured_by") or "",
        machine.attribute(command.name, "id") or "",
    )
    stride = strides.get(key, default_stride(machine, command.name))
    blocks = -(-int(sizes[0]) // row_columns)
    return (blocks - 1) * stride + int(sizes[1])


def _streamed(
    command: Command, position: int, rows: int, above: Body, body: Body, machine: Machine
) -> int:
    """Maximum number of rows that an operand of a product may touch, which may be strided or
    transposed."""
    how = operands_of(body, machine)
    if how.transposed:
        at = machine.extent(command.name, position, "columns")
        limit = float(machine.attribute(command.name, "max_columns") or math.inf)
        columns = command.operands[at] if at is not None else ONE
        most = bounds(columns, env_of(above))[1] if isinstance(columns, Expr) else limit
        rows = max(rows, int(min(most, limit)))
    if not is_streamed(command, position, machine):
        return rows
    if how.stride is None:
        raise NotApplicable("the distance between the rows of an operand is not known")
    return (rows - 1) * how.stride + 1


def _intervals(access: Access) -> list[tuple[int, int]]:
    """The rows that an access may touch, as one interval for each combination of slot numbers."""
    row = access.local.row
    if row.is_const:
        return [(row.const, row.const + access.rows)]
    slots = [(a, c) for a, c in row.terms if isinstance(a, Remainder) and a.by <= MAX_SLOTS]
    rest = Expr(row.const, tuple(t for t in row.terms if t not in slots)) if slots else row
    low, high = bounds(rest, access.env)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise NotApplicable("a local address has no bounds")
    if not slots:
        return [(int(low), int(high) + access.rows)]
    choices = itertools.product(
        *(range(0, a.by * c, c) for a, c in slots if isinstance(a, Remainder))
    )
    return [(int(low) + sum(o), int(high) + sum(o) + access.rows) for o in choices]


def overlapping(left: Access, right: Access) -> bool:
    """Whether two accesses may touch the same rows in some iterations.

    This is decided by intervals, and by the greatest common divisor of all strides: the addresses
    `64 * i` and `64 * i + 16` of 16 rows each never overlap.
    """
    if not _overlap(_intervals(left), _intervals(right)):
        return False
    lattices = [lattice(a) for a in (left, right)]
    period = math.gcd(*(g for _, g in lattices))
    distance = lattices[0][0] - lattices[1][0]
    if period == 0:
        return -right.rows < distance < left.rows
    return distance % period < left.rows or distance % period > period - right.rows


def lattice(access: Access) -> tuple[int, int]:
    """An address of an access, and a number that divides its distance to all others."""
    loops = {s.var: s for s in access.above if isinstance(s, Loop)}
    start, period = access.local.row.const, 0
    for atom, coefficient in access.local.row.terms:
        loop = loops.get(atom.name) if isinstance(atom, Var) else None
        if loop is not None and loop.lower.is_const:
            start += coefficient * loop.lower.const
            coefficient *= loop.step
        period = math.gcd(period, coefficient)
    return start, period


def reused(buffer: Buffer) -> bool:
    """Whether rows are written again after they were read, in one pass over the text."""
    seen_read = False
    for access in buffer.accesses:
        others = (w for w in buffer.writers if w is not access)
        if access.writes and seen_read and any(overlapping(access, w) for w in others):
            return True
        seen_read = seen_read or not access.writes
    return False


def _overlap(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> bool:
    return any(a < d and c < b for a, b in left for c, d in right)


def _buffer(members: list[Access], touched: list[tuple[int, int]], taken: dict[str, int]) -> Buffer:
    name = _name(members)
    taken[name] = taken.get(name, 0) + 1
    label = name if taken[name] == 1 else f"{name}{taken[name]}"
    base, end = min(a for a, _ in touched), max(b for _, b in touched)
    space = members[0].local.space
    turning = [t for m in members if (t := _turns(m))]
    slots = frozenset[tuple[int, int]]().union(*turning)
    if len(slots) > 1:  # all accesses use the slots in turn; other remainders select blocks
        slots = slots.intersection(*turning)
    if len(slots) == 1:
        ((count, stride),) = slots
        # Not the rows of the last slot, because other accesses that share rows with a slot may use
        # more of it.
        rows = max((low - base) % stride + high - low for low, high in touched)
        if rows <= stride and (end - 1 - base) // stride < count:
            return Buffer(label, space, base, rows, tuple(members), count, stride)
    return Buffer(label, space, base, end - base, tuple(members))


def _turns(access: Access) -> frozenset[tuple[int, int]]:
    """The values through which an access counts repeatedly, each with its distance in rows."""
    return frozenset(
        (a.by, c)
        for a, c in access.local.row.terms
        if isinstance(a, Remainder) and a.by <= MAX_SLOTS
    )


def _name(members: list[Access]) -> str:
    """The array from or to which a buffer is moved, otherwise the name of its memory."""
    for access in members:
        for operand in access.command.operands:
            if isinstance(operand, Dram):
                return operand.array
    return members[0].local.space.lower()
