"""A static estimate of a kernel's time, to choose between plans before anything is run.

It counts, from trip counts alone, how long the array, the moves and the core are busy, and how long
they wait for one another. It ranks rewrites of one kernel; it does not predict cycles. All
numbers are cycles of a machine that multiplies one row and moves one local row per cycle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tilewright.proposers.rewriter.analysis import env_of, trips
from tilewright.proposers.rewriter.buffers import Access, Buffer, buffers_of
from tilewright.proposers.rewriter.expr import Expr, bounds
from tilewright.proposers.rewriter.ir import (
    Assign,
    Body,
    Command,
    Guard,
    Kernel,
    Loop,
    Stmt,
    children,
    commands,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.placement import bank_shares, collision

MOVE_OVERHEAD = 6.0
"""Cycles a move takes beyond one per row: a wide move is cheaper than several narrow ones."""
STORE_ROW = 1.8
"""Cycles per stored row."""
LATENCY = 100.0
"""From issuing a load to its data being usable, and from a product to its result being stored."""
QUEUE = 8.0
"""Moves that wait in their queue before the core, and with it the array, waits for them."""
BLOCKED = 0.5
"""The part of the time of moves beyond the queue that the array has no work for."""
CORE_COMMAND = 6.0
CORE_ITERATION = 3.0
"""Cycles of the core per command and per loop iteration."""
CORE_ELEMENT = 30.0
"""Cycles of the core per element that it computes itself, with the wait for what was stored."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Busy cycles per unit, cycles in which all wait, and rows loaded."""

    array: float
    moves: float
    core: float
    exposed: float
    loaded_rows: float

    @property
    def total(self) -> float:
        """The busiest unit, and what nothing hides."""
        return max(self.array, self.moves, self.core) + self.exposed


def estimate(kernel: Kernel, machine: Machine) -> Cost:
    """The cost of a kernel; opaque code counts nothing."""
    return _estimate(kernel.body, machine)


@lru_cache(maxsize=2048)
def _estimate(body: Body, machine: Machine) -> Cost:
    runs = _runs(body)
    buffers = list(buffers_of(body, machine))
    rows = {c: _rows(c, a, machine) for c, a in walk_paths(body) if isinstance(c, Command)}
    array = moves = core = loaded = waited = 0.0
    clash = _clashing(buffers, machine)
    latching = _latching(body, machine)
    for stmt, times in runs.items():
        if isinstance(stmt, Loop):
            core += times * CORE_ITERATION
        elif isinstance(stmt, Assign):
            core += times * CORE_ELEMENT
        elif isinstance(stmt, Command):
            core += times * CORE_COMMAND
            unit = machine.unit(stmt.name)
            waited += LATENCY * times if unit == "sync" else 0.0
            if unit == "load":
                moves += times * (rows[stmt] + MOVE_OVERHEAD)
                loaded += times * rows[stmt]
            elif unit == "store":
                moves += times * (rows[stmt] * STORE_ROW + MOVE_OVERHEAD)
            elif machine.attribute(stmt.name, "uses"):
                busy = max(rows[stmt], latching.get(stmt, 0.0))
                array += times * busy * (1 + clash.get(stmt, 0.0))
    exposed = waited + sum(_exposed(b, machine, runs, rows, array) for b in buffers)
    return Cost(array, moves, core, exposed, loaded)


def _runs(body: Body) -> Mapping[object, float]:
    """How often each command runs and each loop iterates."""
    result: dict[object, float] = {}
    for stmt, above in walk_paths(body):
        times = 1.0
        for position, around in enumerate(above):
            if isinstance(around, Loop):
                times *= _iterations(around, above[:position])
            elif isinstance(around, Guard):
                share = _share(around, above[:position])
                inside = (*above, stmt)[position + 1]
                times *= share if inside in around.body or share == 1.0 else 1.0 - share
        if isinstance(stmt, Loop):
            times *= _iterations(stmt, above)
        result[stmt] = times
    return result


def _iterations(loop: Loop, above: Body) -> float:
    fewest, most = trips(loop, env_of(above))
    return most if math.isfinite(most) else max(fewest, 1.0)


def _share(guard: Guard, above: Body) -> float:
    """The part of the iterations in which a test for one value of a loop variable holds."""
    share = 1.0
    for compare in guard.condition:
        if compare.op == "==":
            for position, stmt in enumerate(above):
                if isinstance(stmt, Loop) and stmt.var in compare.left.names():
                    share /= max(1.0, _iterations(stmt, above[:position]))
    return share


def _rows(command: Command, above: Body, machine: Machine) -> float:
    """Local rows a command moves or streams: blocks times rows."""
    env = env_of(above)
    sizes = []
    for axis in ("columns", "rows"):
        local = machine.local_operands(command.name)[:1]
        at = machine.extent(command.name, local[0], axis) if local else None
        operand = command.operands[at] if at is not None else Expr(1)
        most = bounds(operand, env)[1] if isinstance(operand, Expr) else 1.0
        sizes.append(most if math.isfinite(most) else 1.0)
    columns = int(machine.attribute(command.name, "max_rows") or 1)
    return math.ceil(sizes[0] / columns) * sizes[1]


def _latching(body: Body, machine: Machine) -> Mapping[Command, float]:
    """Rows that the next product's new operand takes to latch, meanwhile, per product.

    None where that product keeps the operand: then a short product takes only its own rows.
    """
    result: dict[Command, float] = {}
    following: Command | None = None
    for stmt in reversed(body):
        result |= _latching(children(stmt), machine)
        products = [c for c in commands((stmt,)) if machine.attribute(c.name, "uses")]
        kept = following is not None and machine.attribute(following.name, "keeps")
        if isinstance(stmt, Command) and products and not kept:
            result[stmt] = float(machine.attribute(stmt.name, "max_rows") or 0)
        following = products[0] if products else following
    return result


def _clashing(buffers: list[Buffer], machine: Machine) -> Mapping[Command, float]:
    """How likely the operands of a product lie in one bank; partners stand next to one another."""
    reads: dict[Body, list[tuple[Access, Buffer]]] = {}
    for buffer in buffers:
        for access in buffer.readers:
            if machine.unit(access.command.name) == "execute":
                reads.setdefault(access.above, []).append((access, buffer))
    result: dict[Command, float] = {}
    for pairs in reads.values():
        used = list({buffer.name: buffer for _, buffer in pairs}.values())
        worst = max(
            (_shared(a, b, machine) for i, a in enumerate(used) for b in used[:i]), default=0.0
        )
        result |= dict.fromkeys((access.command for access, _ in pairs), worst)
    return result


def _shared(left: Buffer, right: Buffer, machine: Machine) -> float:
    """How likely a row of each lies in the same bank of the same memory."""
    if left.space != right.space:
        return 0.0
    space = machine.spaces[left.space]
    mine, theirs = ([bank_shares(i, space) for i in b.intervals()] for b in (left, right))
    return sum(collision(a, b) for a in mine for b in theirs) / (len(mine) * len(theirs))


def _exposed(
    buffer: Buffer,
    machine: Machine,
    runs: Mapping[object, float],
    rows: Mapping[Command, float],
    array: float,
) -> float:
    """Cycles that loads and stores of a buffer keep the array waiting."""
    products = [o for o in buffer.accesses if machine.unit(o.command.name) == "execute"]
    waits = 0.0
    for access in buffer.accesses:
        unit = machine.unit(access.command.name)
        if unit not in ("load", "store"):
            continue
        times = runs[access.command]
        bursts = _rounds(access, [s for s in access.above if any(s in o.above for o in products)])
        rounds = _rounds(access, _ahead(access)) if _ahead(access) else bursts
        wait = rounds * LATENCY + times * rows[access.command]
        if unit == "store":
            waits += wait if buffer.slots == 1 else 0.0
        else:
            queued = max(0.0, times - bursts * QUEUE) * (rows[access.command] + MOVE_OVERHEAD)
            waits += max(wait * _visible(access, buffer, rounds, array), BLOCKED * queued)
    return waits


def _rounds(access: Access, counted: Sequence[Stmt]) -> float:
    """How often an access's chosen loops come round, with the share its guards let through."""
    rounds = 1.0
    for position, stmt in enumerate(access.above):
        if isinstance(stmt, Loop) and stmt in counted:
            rounds *= _iterations(stmt, access.above[:position])
        elif isinstance(stmt, Guard):
            rounds *= _share(stmt, access.above[:position])
    return rounds


def _ahead(access: Access) -> Body:
    """The loops down to the one whose next iteration a guarded load is for; empty if none."""
    tested = [
        c.left.names()
        for s in access.above
        if isinstance(s, Guard)
        for c in s.condition
        if c.op == "<"
    ]
    last = max(
        (
            i
            for i, s in enumerate(access.above)
            if isinstance(s, Loop) and any(s.var in names for names in tested)
        ),
        default=-1,
    )
    return access.above[: last + 1]


def _visible(access: Access, buffer: Buffer, rounds: float, array: float) -> float:
    """The part of a load's time that the array waits for."""
    guards = [c.op for s in access.above if isinstance(s, Guard) for c in s.condition]
    if "==" in guards:
        return 0.2  # loaded where it is first used: other work of that iteration runs meanwhile
    if buffer.slots == 1:
        return 1.0
    if "<" not in guards:
        return 0.3  # the core reaches the next load only when most of the products are issued
    per_iteration = array / max(rounds, 1.0)
    return max(0.0, 1.0 - per_iteration / (LATENCY * (buffer.slots - 1)))
