"""The cost of each instruction on each engine that can run it (docs/targets/trainium.md).

Vector and scalar instructions take one or two cycles for each element of a partition, and a start
cost. Products take a cycle for each moving column. Transfers take a time for each byte and each
contiguous run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from tilewright.core.errors import InternalError
from tilewright.core.records import Cause
from tilewright.targets.trainium.machine import Machine
from tilewright.targets.trainium.trace import Access, Instruction

PE, VECTOR, SCALAR, GPSIMD, DMA = range(5)
"""Numbers of the engines in the scheduler."""
ENGINES = ("PE", "DVE", "ACT", "Pool", "DMA")
"""Names of the engines in results."""
PSUM_PORT = "PSUM port"
CAUSES = (
    Cause("PE", "the Tensor engine multiplies or transposes"),
    Cause("DVE", "the Vector engine works"),
    Cause("ACT", "the Scalar engine works"),
    Cause("Pool", "the GpSimd engine works"),
    Cause("DMA", "the DMA engines transfer data (the mean of all DMA engines)"),
    Cause(PSUM_PORT, "the Vector or the Scalar engine uses the port to PSUM that they share"),
)
"""The entries of a breakdown, in ns; they overlap."""
_NUMBER = {"pe": PE, "dve": VECTOR, "act": SCALAR, "pool": GPSIMD}
_FAST_PAIRS = {"add", "subtract", "multiply"}
_WIDE = ("float32", "int32", "uint32")
_SMALL_RUN = 512
"""Minimum number of bytes of a part when a transfer inside HBM is distributed to the DMA
engines."""


@dataclass(frozen=True, slots=True)
class Cost:
    """`on` gives ns by engine number, for each engine that can run the instruction.

    A transfer has no such engine. It consists of `jobs` jobs of `job_ns` each, which are
    distributed to the DMA engines.
    """

    on: tuple[tuple[int, float], ...] = ()
    job_ns: float = 0.0
    jobs: int = 0


class Costs:
    """Costs on one machine. Costs of equal instructions are computed once."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._known: dict[tuple[object, ...], Cost] = {}

    def of(self, instruction: Instruction) -> Cost:
        """The cost of one instruction."""
        reads, writes = instruction.reads, instruction.writes
        key = (
            instruction.opcode,
            instruction.engine,
            *instruction.attributes.items(),
            *[_key(a) for a in reads],
            None,
            *[_key(a) for a in writes],
        )
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._compute(instruction)
        return found

    def widened(self, instruction: Instruction, factor: int) -> Cost:
        """The cost of one instruction for `factor` times the elements."""
        return Cost(
            tuple(
                (
                    engine,
                    self._cycles_to_ns(engine, self._vector_cycles(instruction, engine, factor)),
                )
                for engine, _ in self.of(instruction).on
            )
        )

    def _compute(self, instruction: Instruction) -> Cost:
        if instruction.engine == "dma":
            return self._transfer(instruction)
        if instruction.engine == "pe":
            return Cost(((PE, self._product_cycles(instruction) / self.machine.clock.pe),))
        engines = (
            (VECTOR, SCALAR) if instruction.engine == "any" else (_NUMBER[instruction.engine],)
        )
        return Cost(
            tuple(
                (engine, self._cycles_to_ns(engine, self._vector_cycles(instruction, engine, 1)))
                for engine in engines
            )
        )

    def _cycles_to_ns(self, engine: int, cycles: float) -> float:
        clock = self.machine.clock
        return cycles / (clock.vector, clock.scalar, clock.gpsimd)[engine - VECTOR]

    def _vector_cycles(self, instruction: Instruction, engine: int, factor: int) -> float:
        issue, pieces = self.machine.issue, _pieces(instruction)
        elements = factor * _cycles_by_elements(instruction)
        if engine == GPSIMD:
            return pieces * issue.gpsimd_start_cycles + elements
        return max(pieces * issue.least_cycles, elements + pieces * issue.start_cycles)

    def _product_cycles(self, instruction: Instruction) -> float:
        passes, attributes = self.machine.pe, instruction.attributes
        wide = any(a.tensor.dtype == "float32" for a in instruction.reads)
        pieces = _pieces(instruction)
        if instruction.opcode == "nc_transpose":
            partitions, columns = attributes["partitions"], attributes["columns"]
            assert isinstance(partitions, int)
            assert isinstance(columns, int)
            times = passes.fp32_identity_passes if wide else 1
            return max(partitions, pieces * min(64, columns)) * times
        stationary, moving = attributes["m"], attributes["n"]
        assert isinstance(stationary, int)
        assert isinstance(moving, int)
        times = 1.0
        if wide:
            times = passes.fp32_passes
            if attributes.get("is_transpose"):
                times = passes.fp32_transpose_passes
            elif attributes.get("onezero"):
                times /= 2
        return max(pieces * min(64, stationary), moving) * times

    def _transfer(self, instruction: Instruction) -> Cost:
        target = instruction.writes[0]
        if instruction.opcode == "dma_compute":
            # Without the tiles from which row numbers are read.
            sources = instruction.reads[: cast("int", instruction.attributes["sources"])]
        elif instruction.attributes.get("accumulate"):  # the destination is read as well
            sources = (instruction.reads[0], instruction.reads[0])
        else:
            return self._moved(instruction.opcode, instruction.reads[0], target)
        parts = [self._moved("dma_copy", source, target) for source in sources]
        jobs = parts[0].jobs
        return Cost((), sum(part.job_ns * part.jobs for part in parts) / jobs, jobs)

    def _moved(self, opcode: str, source: Access, target: Access) -> Cost:
        dma = self.machine.dma
        on_chip = [a for a in (source, target) if a.tensor.memory != "hbm"]
        if not on_chip:
            total = max(source.bytes, target.bytes)
            run = min(source.run_bytes, target.run_bytes)
            jobs = min(dma.engines, max(1, math.ceil(total / max(_SMALL_RUN, run))))
            descriptors = math.ceil(total / run)
            moving = total / dma.hbm_copy_bytes_per_ns + descriptors * dma.descriptor
            return Cost((), moving / jobs, jobs)
        rows = on_chip[0].partitions
        jobs = max(1, math.ceil(rows / dma.partitions_per_job))
        rows_per_job = min(rows, dma.partitions_per_job)
        elements = max(source.elements, target.elements)
        if opcode == "dma_transpose":
            return Cost((), rows_per_job * elements * dma.element, jobs)
        sides = max(
            source.elements * source.tensor.itemsize, target.elements * target.tensor.itemsize
        )
        # The other side may divide a run of one side; both count elements.
        run = min(source.pattern.run, target.pattern.run)
        descriptors = math.ceil(elements / run)
        once = sides / dma.bytes_per_ns + descriptors * dma.descriptor
        return Cost((), rows_per_job * once, jobs)


def _cycles_by_elements(instruction: Instruction) -> float:
    """Cycles of a vector or scalar instruction without its start cost."""
    rule = _RULES.get(instruction.opcode)
    if rule is None:
        raise InternalError(f"the latency model has no cost for {instruction.opcode}")
    return rule(instruction, _elements(instruction))


def _elements(instruction: Instruction) -> int:
    return max(a.elements for a in (*instruction.reads, *instruction.writes))


def _pieces(instruction: Instruction) -> int:
    """Number of instructions for operands that cannot be described with few steps."""
    return max(a.pieces * a.pattern.pieces for a in (*instruction.reads, *instruction.writes))


def _key(access: Access) -> tuple[object, ...]:
    tensor = access.tensor
    return tensor.memory, tensor.dtype, access.partitions, access.pieces, id(access.pattern)


def is_slow_pair(instruction: Instruction) -> bool:
    """Whether an operation with two tiles takes two cycles for each element."""
    tiles = instruction.reads[:2]
    in_psum = sum(a.tensor.memory == "psum" for a in tiles)
    narrow = all(
        a.tensor.dtype == "bfloat16" and a.tensor.memory == "sbuf" and a.pattern.innermost_step == 1
        for a in (*tiles, *instruction.writes)
    )
    return in_psum != 1 and not (narrow and instruction.attributes.get("op") in _FAST_PAIRS)


def _two_tiles(instruction: Instruction, elements: int) -> float:
    return 2 * elements if is_slow_pair(instruction) else elements


def _scalar_and_tile(instruction: Instruction, elements: int) -> float:
    narrow = all(a.tensor.dtype == "bfloat16" for a in (*instruction.reads, *instruction.writes))
    ops = {instruction.attributes.get("op0"), instruction.attributes.get("op1")}
    return elements if narrow and elements % 2 == 0 and ops <= _FAST_PAIRS else 2 * elements


def _reduction(instruction: Instruction, elements: int) -> float:
    narrow = all(a.tensor.dtype == "bfloat16" for a in (*instruction.reads, *instruction.writes))
    return elements / 2 if narrow else elements


def _set(instruction: Instruction, elements: int) -> float:
    wide = instruction.writes[0].tensor.dtype in _WIDE
    return elements if wide or instruction.attributes.get("value") else elements / 2


def _activation(instruction: Instruction, elements: int) -> float:
    return elements + 64 * bool(instruction.attributes.get("reads_accumulator"))


def _each(instruction: Instruction, elements: int) -> float:
    return elements


def _chosen(instruction: Instruction, elements: int) -> float:
    n, k = instruction.attributes["n"], instruction.attributes["k"]
    assert isinstance(n, int)
    assert isinstance(k, int)
    return 4 * n + k


_Rule = Callable[[Instruction, int], float]
_RULES: dict[str, _Rule] = {
    "nc_transpose": _each,
    "tensor_tensor": _two_tiles,
    "select": _two_tiles,
    "tensor_copy_predicated": _two_tiles,
    "tensor_scalar": _each,
    "scalar_tensor_tensor": _scalar_and_tile,
    "tensor_tensor_scan": lambda i, n: 2 * n,
    "tensor_scalar_reduce": lambda i, n: n + 64,
    "tensor_reduce": _reduction,
    # The documentation gives no number for sums over partitions and only says that they are slow.
    "tensor_partition_reduce": lambda i, n: 8 * n,
    "activation": _activation,
    "reciprocal": lambda i, n: 8 * n,
    "tensor_copy": _each,
    "memset": _set,
    "iota": _each,
    "affine_select": _each,
    "bn_stats": _each,
    "bn_aggr": lambda i, n: 13 * n / 3,
    "max8": _each,
    "nc_find_index8": _each,
    "nc_match_replace8": _each,
    "nc_stream_shuffle": _each,
    "dropout": _each,
    "select_reduce": _two_tiles,
    "range_select": _each,
    "tensor_copy_dynamic": lambda i, n: max(600, n),
    "local_gather": lambda i, n: i.writes[0].elements,
    "topk": _chosen,
}
OPCODES = frozenset([*_RULES, "dma_copy", "dma_transpose", "dma_compute", "nc_matmul"])
"""Every opcode whose cost is known."""
