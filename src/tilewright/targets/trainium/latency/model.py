"""`estimate`: the modelled latency of a traced kernel on one NeuronCore, and its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.parts.extension_check import require_current
from tilewright.parts.memory import without_collection
from tilewright.targets.trainium.latency import _schedule
from tilewright.targets.trainium.latency.capacity import Capacity, examine
from tilewright.targets.trainium.latency.compiling import compiled
from tilewright.targets.trainium.latency.costs import (
    DMA,
    ENGINES,
    PE,
    PSUM_PORT,
    SCALAR,
    VECTOR,
    Costs,
)
from tilewright.targets.trainium.latency.program import PARTITIONS, Program, build
from tilewright.targets.trainium.latency.timeline import timeline
from tilewright.targets.trainium.machine import Machine
from tilewright.targets.trainium.trace import Trace

require_current(_schedule, Path(__file__).parent / "cpp")

MODEL_VERSION = _schedule.SOURCE_HASH[:16]
WAITS = ("", "data", "buffer", "engine", "port")
"""Reasons why an instruction did not start earlier, by the scheduler's numbers."""
_FOR_ACCESSES = [WAITS.index("data"), WAITS.index("buffer")]
NOTHING_LEFT = "nothing left to do"
"""The cause of idle time after an engine's last instruction."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """A modelled latency in ns, and its parts.

    `busy` is the time for which each engine works, and each shared port is used, in ns. `widest` is
    that of DVE and ACT without the start cost of each instruction, in ns, which is what the same
    elements would take in few wide instructions. `idle` gives for the busiest compute engine the
    time that it waited, in ns by cause, and `waits` the same by the line that waited. `timeline`
    gives the share of each tenth of the time after the launch in which an engine works. `lines`
    gives ns by engine for each source line. `bytes_read` and `bytes_written` are what transfers
    read from HBM and write to it; `bytes_copied` are the parts of the first and of
    the second that go from HBM to HBM, which differ if a copy converts the type. `spilled` is the
    number of bytes in both directions that the compiler adds because tiles do not fit.
    """

    latency_ns: float
    busy: Mapping[str, float]
    widest: Mapping[str, float]
    idle: Mapping[str, float]
    waits: Mapping[int, Mapping[str, float]]
    timeline: Mapping[str, tuple[float, ...]]
    lines: Mapping[int, Mapping[str, float]]
    bytes_read: int
    bytes_written: int
    bytes_copied: tuple[int, int]
    spilled: int
    instructions: int
    transfers: int
    products: int
    capacity: Capacity
    sharing: Mapping[int, int]
    """For each line, the number of transfers that waited for another one only because both access
    one of the four groups of 32 partitions of a tile, though other partitions of it."""

    @property
    def busiest(self) -> str:
        """The engine or port with the longest working time, which is the bound of this kernel's
        instructions."""
        return max(self.busy, key=lambda name: self.busy[name])


def estimate(trace: Trace, machine: Machine) -> Estimate:
    """The latency of the instructions in `trace` on `machine`, without any data.

    A kernel that does not fit is estimated as if its largest tiles were kept in HBM. The caller
    decides from `Estimate.capacity` whether the compiler would refuse it.
    """
    with without_collection():
        capacity = examine(trace, machine)
        program = build(trace, compiled(trace), capacity, Costs(machine))
    engine, begin, end, blocker, wait = _schedule.place(_rules(machine), *program.columns())
    taken = np.where(engine == DMA, 0.0, end - begin)
    busy = {
        ENGINES[e]: float(taken[engine == e].sum()) for e in range(DMA) if bool((engine == e).any())
    }
    jobs = program.job_ns * program.jobs
    busy[ENGINES[DMA]] = float(jobs.sum()) / machine.dma.engines
    cycle = np.where(engine == VECTOR, 1 / machine.clock.vector, 1 / machine.clock.scalar)
    held = taken - machine.issue.start_cycles * cycle
    widest = {ENGINES[e]: float(held[engine == e].sum()) for e in (VECTOR, SCALAR)}
    touches_psum = (program.ports & 1).astype(bool)
    if machine.psum_port_shared:
        on_port = touches_psum & ((engine == VECTOR) | (engine == SCALAR))
        busy[PSUM_PORT] = float(held[on_port].sum())
    finish = float(end.max(initial=0.0))
    idle, waits = _idle(busy, finish, program.lines, engine, begin, end, blocker, wait)
    return Estimate(
        latency_ns=machine.launch + finish,
        busy={name: ns for name, ns in busy.items() if ns > 0},
        widest={name: ns for name, ns in widest.items() if ns > 0},
        idle=idle,
        waits=waits,
        timeline=timeline(
            engine,
            begin,
            end,
            np.where(engine == DMA, jobs / machine.dma.engines, taken),
            machine.dma.fixed,
        ),
        lines=_by_line(program, engine, taken, jobs / machine.dma.engines),
        bytes_read=program.bytes_read,
        bytes_written=program.bytes_written,
        bytes_copied=program.bytes_copied,
        spilled=program.bytes_spilled,
        instructions=int((engine != DMA).sum()),
        transfers=int((engine == DMA).sum()),
        products=int((engine == PE).sum()),
        capacity=capacity,
        sharing=_sharing(program, engine, blocker, wait),
    )


def _sharing(
    program: Program, engine: NDArray[np.int32], blocker: NDArray[np.int32], wait: NDArray[np.int32]
) -> dict[int, int]:
    """The transfers that waited for one on other partitions, as in `Estimate.sharing`."""
    some = program.end_partition - program.first_partition < PARTITIONS
    row_of = np.repeat(np.arange(len(engine)), np.diff(program.first_access))
    partial = np.zeros(len(engine), bool)
    partial[row_of[some]] = True
    waited = partial & (engine == DMA) & (blocker >= 0) & np.isin(wait, _FOR_ACCESSES)
    found: dict[int, int] = {}
    for row in np.flatnonzero(waited).tolist():
        if engine[blocker[row]] == DMA and not _meet(program, row, int(blocker[row])):
            line = int(program.lines[row])
            found[line] = found.get(line, 0) + 1
    return found


def _meet(program: Program, row: int, other: int) -> bool:
    """Whether two instructions access elements of one partition."""
    ranges = [range(*program.first_access[i : i + 2].tolist()) for i in (row, other)]
    return any(
        program.tensor[a] == program.tensor[b]
        and program.low[a] < program.high[b]
        and program.low[b] < program.high[a]
        and program.first_partition[a] < program.end_partition[b]
        and program.first_partition[b] < program.end_partition[a]
        for a in ranges[0]
        for b in ranges[1]
    )


def _rules(machine: Machine) -> dict[str, object]:
    issue, clock = machine.issue, machine.clock
    rates = (clock.vector, clock.scalar, clock.gpsimd)
    return {
        "semaphore_ns": issue.semaphore,
        "result_ns": [0.0, *(issue.result_cycles / rate for rate in rates), 0.0],
        "start_ns": [0.0, *(issue.start_cycles / rate for rate in rates), 0.0],
        "dma_fixed_ns": machine.dma.fixed,
        "dma_engines": machine.dma.engines,
        "window": issue.window,
        "psum_port_shared": bool(machine.psum_port_shared),
        "vector_port_shared": bool(machine.vector_port_shared),
    }


def _idle(
    busy: Mapping[str, float],
    finish: float,
    lines: NDArray[np.int64],
    engine: NDArray[np.int32],
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    blocker: NDArray[np.int32],
    wait: NDArray[np.int32],
) -> tuple[dict[str, float], dict[int, dict[str, float]]]:
    """The waits of the busiest of the four compute engines, in ns by cause, and by line."""
    compute = {name: ns for name, ns in busy.items() if name in ENGINES[:DMA]}
    if not compute:
        return {}, {}
    number = ENGINES.index(max(compute, key=lambda name: compute[name]))
    mine = np.flatnonzero(engine == number)
    mine = mine[np.argsort(start[mine], kind="stable")]
    gaps = start[mine] - np.concatenate([[0.0], end[mine][:-1]])
    causes: dict[str, float] = {}
    waits: dict[int, dict[str, float]] = {}
    waited = mine[gaps > 0]
    source = np.where(blocker[waited] >= 0, engine[blocker[waited]], -1)
    columns = (lines[waited], wait[waited], source, gaps[gaps > 0])
    for at, kind, other, gap in zip(*(column.tolist() for column in columns), strict=True):
        cause = _cause(kind, other)
        causes[cause] = causes.get(cause, 0.0) + gap
        line = waits.setdefault(at, {})
        line[cause] = line.get(cause, 0.0) + gap
    causes[NOTHING_LEFT] = finish - float(end[mine].max())
    ordered = sorted(causes.items(), key=lambda item: -item[1])
    return {cause: ns for cause, ns in ordered if ns > 0}, waits


@cache
def _cause(wait: int, other: int) -> str:
    """A wait in words, from the numbers of its kind and of the engine waited for (-1: none)."""
    source = ENGINES[other] if other >= 0 else ""
    return {
        "data": f"results of {source}",
        "buffer": f"buffers that {source} still uses",
        "port": "the port of PSUM or SBUF",
    }.get(WAITS[wait], "earlier instructions")


def _by_line(
    program: Program,
    engine: NDArray[np.int32],
    taken: NDArray[np.float64],
    dma: NDArray[np.float64],
) -> dict[int, dict[str, float]]:
    table: dict[int, dict[str, float]] = {}
    for number, name in enumerate(ENGINES):
        chosen = engine == number
        time = (dma if number == DMA else taken)[chosen]
        lines, where = np.unique(program.lines[chosen], return_inverse=True)
        for line, ns in zip(lines, np.bincount(where, time), strict=False):
            if ns > 0:
                table.setdefault(int(line), {})[name] = float(ns)
    return table
