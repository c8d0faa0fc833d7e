"""A static estimate of a kernel's time, to compare plans before a kernel is run.

It counts from trip counts how long the array, the moves and the core are busy, and simulates a
coarse timeline of their waits for one another (`timeline.py`). It ranks rewrites of one kernel and
does not predict cycles. All numbers are cycles of a machine that multiplies one row and moves one
local row per cycle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.proposers.rewriter.analysis.buffers import Buffer, buffers_of
from tilewright.proposers.rewriter.analysis.ranges import env_of, mean, mean_trips, trips
from tilewright.proposers.rewriter.analysis.words import core_time
from tilewright.proposers.rewriter.c_types import SIZES
from tilewright.proposers.rewriter.estimate.contention import clashing, disturbing_loads
from tilewright.proposers.rewriter.estimate.prefetches import prefetched_in
from tilewright.proposers.rewriter.estimate.timeline import Choice, Event, Node, Repeat, Timeline
from tilewright.proposers.rewriter.expr import Expr, bounds
from tilewright.proposers.rewriter.ir import (
    Assign,
    Body,
    Command,
    Dram,
    Guard,
    Kernel,
    Local,
    Loop,
    Words,
    commands,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine

MOVE_OVERHEAD = 6.0
"""Number of cycles of a move in addition to one per row, so that one wide move is faster than
several narrow ones."""
STORE_ROW = 1.8
"""Cycles per stored row."""
CORE_COMMAND = 5.5
CORE_ITERATION = 2.5
"""Cycles of the core per command and per loop iteration."""
CORE_ELEMENT = 30.0
"""Number of cycles of the core for each element that it computes itself, including the wait for
stores."""


CONTENTION, STEEPNESS = 0.1, 4
"""By how much a kernel is slower if another unit is busy all the time (about a tenth), and how
rapidly this decreases with the share of the time for which it is busy."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Busy cycles of each unit, cycles in which all units wait, and the number of loaded rows.

    `unfilled` are the array's cycles in excess of one per row, caused by products with fewer rows
    than the array. `unread` is the part of `core` that unrecognised code takes.
    """

    array: float
    moves: float
    core: float
    exposed: float
    loaded_rows: float
    unfilled: float = 0.0
    unread: float = 0.0

    def with_unread(self, cycles: float) -> Cost:
        """The cost with the measured cycles of unrecognised code."""
        return replace(self, core=self.core + cycles, unread=cycles)

    @property
    def total(self) -> float:
        """The end of the timeline, which includes the busiest unit and all time that does not
        overlap it."""
        return max(self.array, self.moves, self.core) + self.exposed

    @property
    def with_contention(self) -> float:
        """The total, increased if other units are nearly as busy as the busiest one.

        The timeline assumes that moves and commands overlap the products completely. In fact, the
        units wait for one another, and the more so the busier they are.
        """
        shares = (self.moves / self.total, self.core / self.total) if self.total else ()
        return self.total * math.exp(CONTENTION * sum(share**STEEPNESS for share in shares))


def estimate(kernel: Kernel, machine: Machine) -> Cost:
    """The cost of a kernel without its unrecognised code."""
    return _estimate(kernel.body, kernel.words, machine)


@lru_cache(maxsize=2048)
def _estimate(body: Body, words: Words | None, machine: Machine) -> Cost:
    runs = _runs(body)
    buffers = list(buffers_of(body, machine))
    rows = {c: _rows(c, a, machine) for c, a in walk_paths(body) if isinstance(c, Command)}
    array = moves = core = loaded = stolen = unfilled = 0.0
    busy: dict[Command, float] = {}
    clash = clashing(buffers, machine)
    disturbing = disturbing_loads(buffers, machine)
    latching = _latching(body, machine)
    sending = core_time(body, words) if words is not None else {}
    for stmt, times in runs.items():
        if isinstance(stmt, Loop):
            core += times * CORE_ITERATION / max(1, stmt.hint)
        elif isinstance(stmt, Assign):
            core += times * CORE_ELEMENT
        elif isinstance(stmt, Command):
            core += times * sending.get(stmt, CORE_COMMAND)
            unit = machine.unit(stmt.name)
            if unit == "load":
                busy[stmt] = rows[stmt] * _beats(stmt, machine) + MOVE_OVERHEAD
                loaded += times * rows[stmt]
                stolen += times * rows[stmt] * disturbing.get(stmt, 0.0)
            elif unit == "store":
                busy[stmt] = rows[stmt] * STORE_ROW + MOVE_OVERHEAD
            elif machine.attribute(stmt.name, "uses"):
                latched = float(machine.attribute(stmt.name, "max_rows") or 0)
                least = rows[stmt] + latching[stmt] * max(0.0, latched - rows[stmt])
                busy[stmt] = least * (1 + clash.get(stmt, 0.0))
                array += times * busy[stmt]
                unfilled += times * (least - rows[stmt])
            if unit in ("load", "store"):
                moves += times * busy[stmt]
    if array:
        busy |= {c: busy[c] * (1 + stolen / array) for c in clash.keys() & busy.keys()}
        array += stolen
    timeline = Timeline(len(buffers))
    timeline.run(_nodes(body, (), busy, _touched(body, buffers, machine), sending))
    exposed = max(0.0, timeline.end - max(array, moves, core))
    return Cost(array, moves, core, exposed, loaded, unfilled)


@dataclass(frozen=True, slots=True)
class _Touched:
    """Buffers that a command reads and writes, by number, and those of them that have a single
    slot.

    `prefetched_in` is the outermost loop whose products do not read what this load loads.
    """

    unit: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    alone: frozenset[int]
    prefetched_in: Loop | None


def _touched(body: Body, buffers: Sequence[Buffer], machine: Machine) -> Mapping[Command, _Touched]:
    """The buffers that each command accesses. For a product, those of the command that latched its
    operand are included."""
    single = frozenset(n for n, b in enumerate(buffers) if not (_takes_turns(b) or _in_turn(b)))
    found: dict[Command, tuple[set[int], set[int]]] = {}
    for number, buffer in enumerate(buffers):
        for access in buffer.accesses:
            found.setdefault(access.command, (set(), set()))[access.writes].add(number)
    result: dict[Command, _Touched] = {}
    prefetched = prefetched_in(buffers)
    latched: tuple[set[int], set[int]] = (set(), set())
    for command in commands(body):
        reads, writes = found.get(command, (set(), set()))
        if machine.attribute(command.name, "latches"):
            latched = reads, writes
        elif machine.attribute(command.name, "uses"):
            reads, writes = reads | latched[0], writes | latched[1]
        result[command] = _Touched(
            machine.unit(command.name),
            tuple(sorted(reads)),
            tuple(sorted(writes)),
            single & (reads | writes),
            prefetched.get(command),
        )
    return result


def _takes_turns(buffer: Buffer) -> bool:
    """Whether each iteration of the innermost loops that fill and use a buffer has its own rows.

    Slots that only an outer loop uses in turn are a single slot for its inner loops.
    """
    filled = {s for a in buffer.writers for s in a.above if isinstance(s, Loop)}
    used_in = {
        next((s for s in reversed(a.above) if isinstance(s, Loop) and s in filled), None)
        for a in buffer.readers
    }
    return None not in used_in and all(
        loop.var in access.local.row.names()
        for loop in used_in
        if loop is not None
        for access in buffer.accesses
        if loop in access.above
    )


def _in_turn(buffer: Buffer) -> bool:
    """Whether the iterations of an outermost loop that fills and uses a buffer have their own
    rows."""
    outermost = {next((s for s in a.above if isinstance(s, Loop)), None) for a in buffer.writers}
    for loop in outermost - {None}:
        inside = [a for a in buffer.accesses if loop in a.above]
        own = all(loop.var in a.local.row.names() for a in inside if loop is not None)
        if own and any(not a.writes for a in inside):
            return True
    return False


def _event(
    command: Command,
    above: Body,
    busy: Mapping[Command, float],
    touched: Mapping[Command, _Touched],
    sending: Mapping[Command, float],
    share: float,
) -> Event:
    what, core = touched[command], share * sending.get(command, CORE_COMMAND)
    if what.unit == "execute" and command not in busy:
        return Event("core", 0.0, core)  # it latches: its operands are counted for the product
    return Event(
        what.unit,
        share * busy.get(command, 0.0),
        core,
        what.reads,
        what.writes,
        bool(_tested(above, "<")) or what.prefetched_in is not None,
        bool(_tested(above, ">")),
        what.alone,
    )


def _runs(body: Body) -> Mapping[object, float]:
    """How often each command runs, and how many iterations each loop has."""
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
    times = mean_trips(loop, above)
    return times if math.isfinite(times) else max(trips(loop, env_of(above))[0], 1.0)


def _share(guard: Guard, above: Body) -> float:
    """The share of iterations in which a test for one value of a loop variable is true."""
    share = 1.0
    for compare in guard.condition:
        if compare.op == "==":
            for position, stmt in enumerate(above):
                if isinstance(stmt, Loop) and stmt.var in compare.left.names():
                    share /= max(1.0, _iterations(stmt, above[:position]))
    return share


def _rows(command: Command, above: Body, machine: Machine) -> float:
    """Average number of local rows that a command moves or streams: blocks times rows."""
    sizes = []
    for axis in ("columns", "rows"):
        local = machine.local_operands(command.name)[:1]
        at = machine.extent(command.name, local[0], axis) if local else None
        operand = command.operands[at] if at is not None else Expr(1)
        size = operand if isinstance(operand, Expr) else Expr(1)
        value = mean(size, above) if axis == "rows" else bounds(size, env_of(above))[1]
        sizes.append(value if math.isfinite(value) else 1.0)
    columns = int(machine.attribute(command.name, "max_rows") or 1)
    return math.ceil(sizes[0] / columns) * sizes[1]


def _beats(load: Command, machine: Machine) -> float:
    """Number of cycles to fetch a row. A row of sums is several times as long as a row of factors.

    Rows that are filled without a memory access take one cycle.
    """
    if not any(isinstance(o, Dram) for o in load.operands):
        return 1.0
    sizes = {name: SIZES.get(machine.element(name) or "", 1) for name in machine.spaces}
    local = next(o for o in load.operands if isinstance(o, Local))
    return sizes[local.space] / min(sizes.values())


def _latching(
    body: Body, machine: Machine, above: Body = (), after: float = 1.0
) -> Mapping[Command, float]:
    """For each product, the share of its runs after which the next product latches another operand.

    Rows of this operand are latched while the product runs. If the next product keeps the operand
    instead, a short product takes only the time of its own rows. `after` is the share for the
    product that follows the body.
    """
    result: dict[Command, float] = {}
    for stmt in reversed(body):
        inside, first = (*above, stmt), _latches_first((stmt,), machine, above)
        if isinstance(stmt, Command):
            if first is not None:
                result[stmt] = after
        elif isinstance(stmt, Loop):
            ends = 1 / max(1.0, _iterations(stmt, above))
            again = after if first is None else ends * after + (1 - ends) * first
            result |= _latching(stmt.body, machine, inside, again)
        elif isinstance(stmt, Guard):
            for branch in (stmt.body, stmt.orelse):
                result |= _latching(branch, machine, inside, after)
        after = after if first is None else first
    return result


def _latches_first(body: Body, machine: Machine, above: Body) -> float | None:
    """The share of runs of a body whose first product latches another operand; None if it has no
    product."""
    for stmt in body:
        first: float | None = None
        if isinstance(stmt, Command):
            if machine.attribute(stmt.name, "uses"):
                first = 0.0 if machine.attribute(stmt.name, "keeps") else 1.0
        elif isinstance(stmt, Guard):
            inside, share = (*above, stmt), _share(stmt, above)
            yes, no = (_latches_first(b, machine, inside) for b in (stmt.body, stmt.orelse))
            first = no if yes is None else yes if no is None else share * yes + (1 - share) * no
        elif isinstance(stmt, Loop):
            first = _latches_first(stmt.body, machine, (*above, stmt))
        if first is not None:
            return first
    return None


def _nodes(
    body: Body,
    above: Body,
    busy: Mapping[Command, float],
    touched: Mapping[Command, _Touched],
    sending: Mapping[Command, float],
    share: float = 1.0,
) -> tuple[Node, ...]:
    """The body in the form of the timeline: commands with their times, loops, and tests for first
    iterations.

    A loop that runs less than once on average runs once in this `share` of the time.
    """
    result: list[Node] = []
    for stmt in body:
        inside = (*above, stmt)
        if isinstance(stmt, Command):
            result.append(_event(stmt, above, busy, touched, sending, share))
        elif isinstance(stmt, Assign):
            result.append(Event("core", 0.0, CORE_ELEMENT))
        elif isinstance(stmt, Loop):
            times = _iterations(stmt, above)
            nodes = _nodes(stmt.body, inside, busy, touched, sending, share * min(times, 1.0))
            paths = list(walk_paths(stmt.body, inside))
            ahead, delayed = (
                {c for c, p in paths if isinstance(c, Command) and stmt.var in _tested(p, op)}
                for op in "<>"
            )
            prefetched = [
                c for c, _ in paths if isinstance(c, Command) and touched[c].prefetched_in is stmt
            ]
            result.append(
                Repeat(
                    stmt.var,
                    max(times, 1.0),
                    CORE_ITERATION / max(1, stmt.hint),
                    nodes,
                    tuple(sorted({b for c in ahead for b in touched[c].writes})),
                    tuple(sorted({b for c in delayed for b in touched[c].reads})),
                    tuple(sorted({b for c in prefetched for b in touched[c].writes})),
                )
            )
        elif isinstance(stmt, Guard):
            yes, no = (
                _nodes(b, inside, busy, touched, sending, share) for b in (stmt.body, stmt.orelse)
            )
            result.append(Choice(_named(stmt, ("==",)), _named(stmt, (">", "!=")), yes, no))
    return tuple(result)


def _named(guard: Guard, ops: tuple[str, ...]) -> frozenset[str]:
    return frozenset(n for c in guard.condition if c.op in ops for n in c.left.names())


def _tested(above: Body, op: str) -> frozenset[str]:
    """Loops whose variables are compared with `op` in tests around a command.

    `<` is used for work for the next iteration, and `>` for work that remains from the previous
    one.
    """
    guards = [s for s in above if isinstance(s, Guard)]
    return frozenset[str]().union(*(_named(g, (op,)) for g in guards))
