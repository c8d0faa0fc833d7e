"""Estimates the time of a kernel from its instructions, without running it.

Engines work in parallel, so the busiest engine determines the time. Because engines wait for one
another, a part of the time of the others and of the longest chain of statements is added. The
numbers are those of the documentation, as in docs/targets/trainium.md. The evaluator's latency
model decides in the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.proposers.nki.analysis.widening import run_of
from tilewright.proposers.nki.estimate.chain import PSUM_BANKS, banks_of, longest_chain
from tilewright.proposers.nki.ir import (
    ITEM_BYTES,
    WRITTEN,
    Alloc,
    Body,
    Kernel,
    Loop,
    Op,
    Region,
    Statement,
    Tensor,
    ops,
)

GHZ = {"pe": 2.8, "dve": 1.12, "act": 1.4, "pool": 1.4}
START, LEAST, POOL_START = 55, 64, 150
"""Cycles for starting an instruction, for the shortest one, and for starting one on Pool."""
DMA_BYTES, DMA_RUN, DMA_FIXED = 17, 10, 1300
"""Bytes per ns of one of 16 engines, ns for each contiguous run, and ns from start to end."""
HBM_COPY_BYTES = 12.8
"""Bytes per ns of one of 16 engines from HBM to HBM, which the bandwidth of HBM limits."""
PRODUCT_PASSES = 4
"""Number of passes of float32 products."""
EXPOSED = (0.5, 0.25, 0.15)
"""Share of the other engines' time that does not overlap, if there is space for one, two or more
buffers of each tile."""
SMALL = 0.1
"""Statements of the kernel itself with a smaller share of the work, such as copying a row to all
partitions, do not affect how much overlaps."""
CHAINED = 0.9
"""Weight of the longest chain in the time that does not overlap, relative to the share of the other
engines' time. Of several values, it is the best one on 35 small and 8 large kernels."""
SBUF_BYTES = 176 << 10


@dataclass
class Cost:
    """Nanoseconds by engine, where `any` means DVE or ACT, and bytes in each partition that are
    live at once."""

    engines: dict[str, float] = field(default_factory=dict)
    sbuf: int = 0
    banks: int = 0
    waits: float = 0.0
    exposed: float = EXPOSED[0]
    """The share of the other engines' time that does not overlap."""
    chain: float = 0.0
    """Nanoseconds of the longest chain of statements that wait for one another, with overlapping
    iterations of loops."""
    ports: dict[str, float] = field(default_factory=dict)
    """Nanoseconds on a port that two engines share: DVE and ACT share that of PSUM, DVE and Pool
    that of SBUF."""

    @property
    def fits(self) -> bool:
        """Whether the tiles that are live at once fit, with one buffer each."""
        return self.sbuf <= SBUF_BYTES and self.banks <= PSUM_BANKS

    @property
    def total(self) -> float:
        """Nanoseconds of the whole kernel."""
        return self.weighted(CHAINED)

    def weighted(self, chained: float) -> float:
        """Nanoseconds, with this share of the time that does not overlap taken from the longest
        chain."""
        times = dict(self.engines)
        free = times.pop("any", 0.0)
        dve, act = times.get("dve", 0.0), times.get("act", 0.0)
        level = max((dve + act + free) / 2, dve, act)
        times["dve"], times["act"] = (
            max(dve, min(level, dve + free)),
            max(act, min(level, act + free)),
        )
        longest = max(times.values(), default=0.0)
        rest = sum(times.values()) - longest
        longest = max(longest, *self.ports.values(), 0.0)
        beside = self.exposed * rest + self.waits
        return longest + (1 - chained) * beside + chained * max(0.0, self.chain - longest)


def estimate(kernel: Kernel) -> Cost:
    """The rough time of a kernel."""
    cost = Cost()
    tensors = kernel.tensors()
    _add(kernel.body, 1, tensors, cost)
    times = [_times(statement, tensors) for statement in kernel.body]
    cost.chain = longest_chain(kernel.body, times)
    lives = _lives(kernel.body)
    cost.sbuf, cost.banks = _most(lives)
    parts: list[tuple[float, float]] = []
    for (_, _, busy), (sbuf, banks) in zip(times, lives, strict=True):
        buffers = min(SBUF_BYTES // max(1, sbuf), PSUM_BANKS // max(1, banks))
        parts.append((sum(busy.values()), EXPOSED[min(max(buffers, 1), 3) - 1]))
    work = sum(time for time, _ in parts)
    cost.exposed = max((part for time, part in parts if time >= SMALL * work), default=EXPOSED[0])
    return cost


def _times(
    statement: Statement, tensors: Mapping[str, Tensor]
) -> tuple[float, float, dict[str, float]]:
    """Nanoseconds of the first iteration of a statement, of all its iterations, and by engine."""
    if isinstance(statement, Loop):
        return _loop_times(statement, tensors)
    time, busy = _path((statement,), tensors)
    time += DMA_FIXED * ("dma" in busy)
    return time, time, busy


def _loop_times(loop: Loop, tensors: Mapping[str, Tensor]) -> tuple[float, float, dict[str, float]]:
    """The times of `_times` for a loop whose iterations overlap."""
    first, inner = _path(loop.body, tensors)
    longest = max(inner.values(), default=0.0)
    busy = {engine: loop.trips * ns for engine, ns in inner.items()}
    return first, first + (loop.trips - 1) * longest, busy


def _path(body: Body, tensors: Mapping[str, Tensor]) -> tuple[float, dict[str, float]]:
    """Nanoseconds of consecutive statements with overlapping iterations of loops, and by engine."""
    total, busy = 0.0, dict[str, float]()
    for statement in body:
        if isinstance(statement, Loop):
            _, every, inner = _loop_times(statement, tensors)
            total += every
            for engine, ns in inner.items():
                busy[engine] = busy.get(engine, 0.0) + ns
        elif isinstance(statement, Op):
            engine, ns = op_cost(statement, tensors)
            total += ns
            busy[engine] = busy.get(engine, 0.0) + ns
    return total, busy


def _add(body: Body, times: int, tensors: Mapping[str, Tensor], cost: Cost) -> None:
    for statement in body:
        if isinstance(statement, Loop):
            _add(statement.body, times * statement.trips, tensors, cost)
        elif isinstance(statement, Op):
            engine, ns = op_cost(statement, tensors)
            cost.engines[engine] = cost.engines.get(engine, 0.0) + times * ns
            memories = {tensors[region.tensor].memory for _, region in statement.regions}
            for memory, sharers in _PORTS.items():
                if engine in sharers and memory in memories:
                    cost.ports[memory] = cost.ports.get(memory, 0.0) + times * ns
            if engine == "dma" and times <= 16:
                cost.waits += 0.1 * DMA_FIXED * times


_PORTS = {"psum": ("dve", "act", "any"), "sbuf": ("dve", "pool")}


def _most(lives: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The maximum number of bytes and of banks."""
    return max((b for b, _ in lives), default=0), max((n for _, n in lives), default=0)


def _lives(body: Body) -> list[tuple[int, int]]:
    """Bytes of SBUF and banks of PSUM that are live at each statement, with one buffer per tile."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    inner: dict[int, tuple[int, int]] = {}
    for number, statement in enumerate(body):
        if isinstance(statement, Loop):
            inner[number] = _most(_lives(statement.body))
        part = statement.body if isinstance(statement, Loop) else (statement,)
        for op in ops(part):
            for _, region in op.regions:
                first.setdefault(region.tensor, number)
                last[region.tensor] = number
    own = [s.tensor for s in body if isinstance(s, Alloc) and s.tensor.name in first]
    found: list[tuple[int, int]] = []
    for number in range(len(body)):
        sbuf, banks = inner.get(number, (0, 0))
        for tensor in own:
            if first[tensor.name] <= number <= last[tensor.name]:
                if tensor.memory == "sbuf":
                    sbuf += tensor.partition_bytes
                elif tensor.memory == "psum":
                    banks += banks_of(tensor)
        found.append((sbuf, banks))
    return found


def op_cost(op: Op, tensors: Mapping[str, Tensor]) -> tuple[str, float]:
    """The engine that executes an instruction, and the duration of the instruction in ns."""
    if op.name in ("dma_copy", "dma_transpose"):
        return "dma", _transfer(op, tensors)
    if op.name == "dma_add":  # the destination is read as well
        return "dma", 2 * _transfer(op, tensors)
    if op.name in ("gather", "scatter"):
        return "dma", _by_rows(op, tensors)
    target = op.writes[0]
    if op.name == "nc_matmul":
        stationary, moving = op.region("stationary"), op.region("moving")
        passes = PRODUCT_PASSES if tensors[moving.tensor].dtype == "float32" else 1
        return "pe", passes * max(min(64, stationary.columns), moving.columns) / GHZ["pe"]
    if op.name == "nc_transpose":
        data = op.region("data")
        passes = PRODUCT_PASSES if tensors[data.tensor].dtype == "float32" else 1
        return "pe", passes * max(data.dims[0][1], min(64, data.columns)) / GHZ["pe"]
    engine = engine_of(op)
    sources = [region for key, region in op.regions if key not in WRITTEN]
    count = max([target.columns, *(region.columns for region in sources)])
    cycles = count * _per_element(op, sources, target, tensors)
    if op.name == "topk":
        cycles = 4 * _count(op.get("n")) + target.columns
    if engine == "pool":
        return engine, (POOL_START + cycles) / GHZ["pool"]
    if op.get("reduce_res") is not None:
        cycles += 64
    return engine, max(LEAST, cycles + START) / GHZ["act" if engine == "any" else engine]


_ENGINES = {"vector": "dve", "scalar": "act", "gpsimd": "pool"}
_BY_NAME = {
    "activation": "act", "activation_reduce": "act", "iota": "pool", "affine_select": "pool",
    "tensor_partition_reduce": "pool", "local_gather": "pool", "nc_n_gather": "pool",
    "topk": "pool", "tensor_copy": "any", "tensor_scalar": "any", "memset": "any",
}  # fmt: skip


def engine_of(op: Op) -> str:
    """The engine of an instruction; `any` for DVE or ACT."""
    chosen = op.get("engine")
    if isinstance(chosen, str):
        for name, engine in _ENGINES.items():
            if name in chosen:
                return engine
    return _BY_NAME.get(op.name, "dve")


def _per_element(
    op: Op, sources: list[Region], target: Region, tensors: Mapping[str, Tensor]
) -> float:
    types = {tensors[region.tensor].dtype for region in (*sources, target)}
    narrow = types == {"bfloat16"}
    if op.name == "tensor_tensor":
        in_psum = sum(tensors[region.tensor].memory == "psum" for region in sources[:2])
        return 1 if in_psum == 1 or narrow else 2
    if op.name == "scalar_tensor_tensor":
        return 1 if narrow else 2
    if op.name == "tensor_reduce":
        return 0.5 if narrow else 1
    return {
        "tensor_tensor_scan": 2,
        "reciprocal": 8,
        "tensor_partition_reduce": 8,
        "bn_aggr": 4.3,
        "tensor_copy_predicated": 2,
        "select_reduce": 2,
    }.get(op.name, 1)


def _count(value: object) -> int:
    assert isinstance(value, int)
    return value


def _by_rows(op: Op, tensors: Mapping[str, Tensor]) -> float:
    """Nanoseconds of a transfer whose rows are given by a tile, one run for each of them."""
    tile = op.region("dst" if op.name == "gather" else "src")
    size = max(ITEM_BYTES[tensors[op.region(k).tensor].dtype] for k in ("dst", "src"))
    return tile.dims[0][1] * (tile.columns * size / DMA_BYTES + DMA_RUN) / 16


def _transfer(op: Op, tensors: Mapping[str, Tensor]) -> float:
    """Nanoseconds of all 16 engines together."""
    regions = [region for _, region in op.regions]
    on_chip = [r for r in regions if tensors[r.tensor].on_chip]
    shape = (on_chip or regions)[0]
    rows, columns = shape.dims[0][1], max(region.columns for region in regions)
    size = max(ITEM_BYTES[tensors[region.tensor].dtype] for region in regions)
    if op.name == "dma_transpose":
        return min(rows, 8) * columns * DMA_RUN * -(-rows // 8) / 16
    runs = columns / min(run_of(region) for region in regions)
    rate = DMA_BYTES if on_chip else HBM_COPY_BYTES
    return rows * (columns * size / rate + runs * DMA_RUN) / 16
