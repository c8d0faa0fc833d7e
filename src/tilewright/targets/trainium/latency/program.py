"""Converts the steps of a kernel to the columns that the scheduler reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilewright.targets.trainium.latency.capacity import Capacity
from tilewright.targets.trainium.latency.compiling import Step
from tilewright.targets.trainium.latency.costs import DMA, SCALAR, VECTOR, Cost, Costs
from tilewright.targets.trainium.trace import Access, Instruction, Memory, Tensor, Trace, pattern

_READ, _WRITE = 1, 2
_PORTS: dict[Memory, int] = {"hbm": 0, "psum": 1, "sbuf": 2}
PARTITIONS = 128
"""Number of partitions of the memories on the chip."""
_QUARTER = 32
"""Number of partitions that dependences distinguish, because engines start at multiples of it."""
_Numbers = NDArray[np.int64]


@dataclass(eq=False)
class Program:
    """Columns for instructions (and transfers), and for their accesses."""

    cost: NDArray[np.float64]
    job_ns: NDArray[np.float64]
    jobs: NDArray[np.int32]
    ports: NDArray[np.uint8]
    lines: NDArray[np.int64]
    first_access: NDArray[np.int32]
    tensor: NDArray[np.int32]
    kind: NDArray[np.uint8]
    quarters: NDArray[np.uint8]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    first_partition: NDArray[np.int64]
    """The first partition of each access; 0 in HBM."""
    end_partition: NDArray[np.int64]
    """The partition after the last one of each access; `PARTITIONS` in HBM."""
    previous: NDArray[np.int32]
    bytes_read: int
    bytes_written: int
    bytes_copied: tuple[int, int]
    bytes_spilled: int

    def columns(self) -> tuple[NDArray[np.generic], ...]:
        """The columns in the order of the scheduler's parameters."""
        return (
            self.cost,
            self.job_ns,
            self.jobs,
            self.ports,
            self.first_access,
            self.tensor,
            self.kind,
            self.quarters,
            self.low,
            self.high,
            self.previous,
        )


def build(trace: Trace, steps: Sequence[Step], capacity: Capacity, costs: Costs) -> Program:
    """The columns of all steps, including the transfers of spilled tensors."""
    rows = _Rows(trace, capacity, costs)
    for step in steps:
        rows.add(step)
    return rows.finish()


@dataclass(eq=False)
class _Rows:
    """The instructions in program order, each with its accesses. Columns are created for all of
    them at once."""

    trace: Trace
    capacity: Capacity
    costs: Costs
    row_costs: list[Cost] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """For each row the number of accesses up to its last."""
    loaded: list[Tensor] = field(default_factory=list)
    """The tensors into which spilled operands are loaded, after the tensors of the trace."""
    moved: dict[tuple[int, int, int], Cost] = field(default_factory=dict)
    """The costs of spilled accesses by rows of a job, bytes of a row, and jobs."""
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_copied: tuple[int, int] = (0, 0)
    bytes_spilled: int = 0

    def add(self, step: Step) -> None:
        instruction, members = step.instruction, step.members
        accesses: list[Access] = []
        kinds: list[int] = []
        written = _WRITE
        if instruction.opcode == "nc_matmul" and instruction.attributes.get("accumulate"):
            written |= _READ
        for i in members:
            member = self.trace.instructions[i]
            reads = member.reads
            if self.capacity.spilled and instruction.engine != "dma":
                reads = tuple([self._loaded(access, instruction.line) for access in reads])
            accesses += reads
            accesses += member.writes
            kinds += [_READ] * len(reads) + [written] * len(member.writes)
        if instruction.engine == "dma":
            self._count(instruction)
        cost = self.costs.of(instruction)
        if len(members) > 1:
            cost = self.costs.widened(instruction, len(members))
        self._append(cost, instruction.line, accesses, kinds)
        if self.capacity.spilled and instruction.engine != "dma":
            for access in instruction.writes:
                if access.tensor.id in self.capacity.spilled:
                    self._spill(access, instruction.line, [access], [_READ])

    def _loaded(self, access: Access, line: int) -> Access:
        """The access, or the access to the tensor into which a spilled operand is loaded."""
        if access.tensor.id not in self.capacity.spilled:
            return access
        number = len(self.trace.tensors) + len(self.loaded)
        tensor = Tensor(number, "", "sbuf", "uint8", 1, (PARTITIONS, 1), 0, "temporary", line, None)
        self.loaded.append(tensor)
        fresh = Access(tensor, 0, PARTITIONS, 0, pattern(()))
        self._spill(access, line, [access, fresh], [_READ, _WRITE])
        return fresh

    def _spill(self, moved: Access, line: int, accesses: list[Access], kinds: list[int]) -> None:
        """A transfer of one spilled access, at full bandwidth because whole blocks are moved."""
        dma = self.costs.machine.dma
        jobs = max(1, -(-moved.partitions // dma.partitions_per_job))
        rows = min(moved.partitions, dma.partitions_per_job)
        size = moved.elements * moved.tensor.itemsize
        self.bytes_spilled += moved.bytes
        cost = self.moved.get((rows, size, jobs))
        if cost is None:
            cost = self.moved[rows, size, jobs] = Cost((), rows * size / dma.bytes_per_ns, jobs)
        self._append(cost, line, accesses, kinds)

    def _count(self, instruction: Instruction) -> None:
        moved, in_hbm = [0, 0], [True, True]
        for number, side in enumerate((instruction.reads, instruction.writes)):
            for access in side:
                if access.tensor.memory == "hbm":
                    moved[number] += access.bytes
                else:
                    in_hbm[number] = False
        read, written = moved
        self.bytes_read += read
        self.bytes_written += written
        if all(in_hbm) and instruction.reads and instruction.writes:
            before, after = self.bytes_copied
            self.bytes_copied = before + read, after + written

    def _append(self, cost: Cost, line: int, accesses: list[Access], kinds: list[int]) -> None:
        self.row_costs.append(cost)
        self.lines.append(line)
        self.accesses += accesses
        self.kinds += kinds
        self.ends.append(len(self.accesses))

    def finish(self) -> Program:
        """The recorded accesses as a `Program`, whose columns are arrays."""
        count, rows = len(self.accesses), len(self.lines)
        accesses = self.accesses
        tensor = np.fromiter([a.tensor.id for a in accesses], np.int64, count)
        kind = np.array(self.kinds, np.int64)
        ends = np.array([0, *self.ends], np.int64)
        row = np.repeat(np.arange(rows), ends[1:] - ends[:-1])
        tensors = [*self.trace.tensors, *self.loaded]
        memory = np.array([_PORTS[t.memory] for t in tensors], np.int64)[tensor]
        ports = np.zeros(rows, np.int64)
        np.bitwise_or.at(ports, row, memory)
        low, high = self._spans(tensors, tensor, memory)
        start = np.fromiter([a.start_partition for a in accesses], np.int64, count)
        stop = start + np.fromiter([max(a.partitions, a.lanes) for a in accesses], np.int64, count)
        start, stop = np.where(memory > 0, start, 0), np.where(memory > 0, stop, PARTITIONS)
        first, last = start // _QUARTER, (stop - 1) // _QUARTER
        quarters = np.where(memory > 0, (2 << last) - (1 << first), 1)
        # Transfers wait for one another only because of data that a kernel writes to HBM and reads
        # again.
        kept = (memory > 0) | self._ordered(len(tensors))[tensor]
        table = _joined(*[c[kept] for c in (row, tensor, kind, quarters, low, high, start, stop)])
        cost, job_ns, jobs = self._costs()
        previous = [*self.capacity.previous, *([-1] * len(self.loaded))]
        return Program(
            cost=cost,
            job_ns=job_ns,
            jobs=jobs,
            ports=ports.astype(np.uint8),
            lines=np.array(self.lines, np.int64),
            first_access=np.searchsorted(table[0], np.arange(rows + 1)).astype(np.int32),
            tensor=table[1].astype(np.int32),
            kind=table[2].astype(np.uint8),
            quarters=table[3].astype(np.uint8),
            low=table[4],
            high=table[5],
            first_partition=table[6],
            end_partition=table[7],
            previous=np.array(previous, np.int32),
            bytes_read=self.bytes_read,
            bytes_written=self.bytes_written,
            bytes_copied=self.bytes_copied,
            bytes_spilled=self.bytes_spilled,
        )

    def _spans(
        self, tensors: Sequence[Tensor], tensor: _Numbers, memory: _Numbers
    ) -> tuple[_Numbers, _Numbers]:
        """First byte, and one past the last, of each access (`Access.span` for all of them)."""
        accesses, count = self.accesses, len(self.accesses)
        spans = np.array([a.pattern.span for a in accesses], np.int64).reshape(count, 2)
        offset = np.fromiter([a.offset for a in accesses], np.int64, count)
        size = np.array([t.itemsize for t in tensors], np.int64)[tensor]
        reach = np.fromiter([a.partition_step * (a.partitions - 1) for a in accesses],
                            np.int64, count)  # fmt: skip
        reach = np.where(memory > 0, 0, reach)
        low = (offset + spans[:, 0] + np.minimum(0, reach)) * size
        high = (offset + spans[:, 1] + np.maximum(0, reach)) * size
        return low, high

    def _ordered(self, count: int) -> NDArray[np.bool_]:
        """For each tensor, whether it is in HBM and both read and written there."""
        read, written = np.zeros(count, bool), np.zeros(count, bool)
        for instruction in self.trace.instructions:
            if instruction.engine == "dma":
                for access in instruction.reads:
                    read[access.tensor.id] = True
                for access in instruction.writes:
                    written[access.tensor.id] = True
        here = np.zeros(count, bool)
        here[[t.id for t in self.trace.tensors if t.memory == "hbm"]] = True
        return read & written & here

    def _costs(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int32]]:
        """Costs on each engine, or -1 if it cannot run the instruction. For transfers, ns of a job,
        and jobs."""
        numbers: dict[int, int] = {}
        different: list[Cost] = []
        which = np.empty(len(self.row_costs), np.int64)
        for i, cost in enumerate(self.row_costs):
            number = numbers.get(id(cost))
            if number is None:
                number = numbers[id(cost)] = len(different)
                different.append(cost)
            which[i] = number
        table = np.full((len(different), DMA), -1.0)
        for number, cost in enumerate(different):
            for engine, ns in cost.on:
                table[number, engine] = ns
        return (
            _balanced(table[which]),
            np.array([cost.job_ns for cost in different], np.float64)[which],
            np.array([cost.jobs for cost in different], np.int32)[which],
        )


def _joined(
    row: _Numbers, tensor: _Numbers, kind: _Numbers, quarters: _Numbers, *bounds: _Numbers
) -> tuple[_Numbers, ...]:
    """The columns of accesses. Accesses of one row to one tensor are merged into one that contains
    them all. `bounds` are lower and upper bounds in turn."""
    if not len(row):
        return row, tensor, kind, quarters, *bounds
    key = (row * (int(tensor.max()) + 1) + tensor) * 4 + kind
    _, first, where = np.unique(key, return_index=True, return_inverse=True)
    if len(first) == len(row):
        return row, tensor, kind, quarters, *bounds
    merged = [column[first] for column in (quarters, *bounds)]
    np.bitwise_or.at(merged[0], where, quarters)
    for number, bound in enumerate(bounds):
        (np.maximum if number % 2 else np.minimum).at(merged[number + 1], where, bound)
    order = np.argsort(first, kind="stable")
    first = first[order]
    return row[first], tensor[first], kind[first], *[column[order] for column in merged]


def _balanced(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distribute instructions that DVE and ACT can both run so that both end at the same time."""
    vector, scalar = table[:, VECTOR].tolist(), table[:, SCALAR].tolist()
    free = np.flatnonzero((table[:, VECTOR] >= 0) & (table[:, SCALAR] >= 0)).tolist()
    if not free:
        return table
    fixed = [
        sum(on for on, other in zip(one, two, strict=True) if on >= 0 > other)
        for one, two in ((vector, scalar), (scalar, vector))
    ]
    on_vector = sum(vector[i] for i in free)
    on_scalar = sum(scalar[i] for i in free)
    # fixed[0] + share * on_vector = fixed[1] + (1 - share) * on_scalar
    share = (fixed[1] + on_scalar - fixed[0]) / (on_vector + on_scalar)
    share = min(1.0, max(0.0, share))
    owed = 0.0
    for i in free:
        owed += share * vector[i]
        if owed >= vector[i] / 2:
            owed -= vector[i]
            table[i, SCALAR] = -1.0
        else:
            table[i, VECTOR] = -1.0
    return table
