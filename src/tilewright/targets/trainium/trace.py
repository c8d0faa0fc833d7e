"""The traced program: what a kernel does, one record per machine instruction, without any data.

The evaluator (`language/`) writes a `Trace` while it walks a kernel; the latency model, the
feedback and the rewriter read it. Loops are unrolled in `Trace.instructions`, in program order,
and their structure is kept beside it in `Trace.loops`. Only the standard library is used here.

Opcodes, their engines, and their attributes (in brackets the value of one that is absent):

- `dma_copy`, `dma_transpose` (one descriptor per element): dma; `accumulate` [False] (read, modify,
  write), `indirect` [False] (row numbers come from a tile), `queue` ("hwdge", "swdge", [""]).
- `dma_compute` (the sum of the first `sources` of the `reads`): dma.
- `nc_matmul`: pe; `k`, `m`, `n` (contraction, stationary and moving columns), `accumulate` (adds to
  what PSUM holds; then it depends on the writer before), `is_transpose` [False], `onezero` [False].
- `nc_transpose`: pe or dve; `partitions`, `columns` of its input.
- `tensor_tensor`: dve or pool; `op`. `select` (predicated choice of tiles): dve.
- `tensor_scalar`: any, dve, act or pool; `op0`, `op1` [""].
- `scalar_tensor_tensor`, `tensor_tensor_scan`: dve; `op0`, `op1`.
- `tensor_scalar_reduce`: dve; `op0`, `reduce_op`.
- `tensor_reduce`: dve; `op`. `tensor_partition_reduce`: pool; `op`.
- `activation`: act; `op`, `reduce_command` ["idle"], `reads_accumulator` [False].
- `reciprocal`: dve. `tensor_copy`: any, dve, act or pool. `memset`: any, dve or pool; `value`.
- `iota`, `affine_select`: pool.
- `bn_stats`, `bn_aggr`, `max8`, `nc_find_index8`, `nc_match_replace8`, `nc_stream_shuffle`,
  `select_reduce`, `range_select`,
  `dropout`, `tensor_copy_predicated`, `tensor_copy_dynamic`: dve. `local_gather`: pool.
- `topk`: pool; `n` (compared elements of a group), `k` (chosen ones).

Scalar operands that are tiles ([P, 1] columns: bias, scale, operand0, initial) stand among `reads`
after the data operands; numbers do not appear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

Memory = Literal["hbm", "sbuf", "psum"]
Engine = Literal["pe", "dve", "act", "pool", "dma", "any"]
"""`any`: the kernel named no engine, and several can run the instruction. The latency model then
chooses one.
"""
LoopKind = Literal["affine", "sequential", "static"]
TensorKind = Literal["input", "output", "local", "temporary", "constant"]
"""`local`: declared by the kernel; `temporary`: the fresh result of an operation."""

MOST_STEPS = 4
"""Maximum number of steps along the free axes of an engine's operand, each with a count."""
NO_ATTRIBUTES: Mapping[str, object] = {}


class Pattern:
    """The elements of one partition that an access touches, relative to its offset.

    `dims` are (step, count) pairs in elements, the innermost last. HBM has no partitions. For an
    access to HBM, `partition_step` of the `Access` is the distance between the elements of two
    consecutive partitions of the tile. Patterns are shared between accesses (`pattern()`), so
    derived values are computed only once.
    """

    def __init__(self, dims: tuple[tuple[int, int], ...]):
        self.dims = tuple((step, count) for step, count in dims if count != 1) or ((1, 1),)

    @cached_property
    def elements(self) -> int:
        """Elements per partition."""
        total = 1
        for _, count in self.dims:
            total *= count
        return total

    @cached_property
    def span(self) -> tuple[int, int]:
        """First and one past the last element touched, relative to the offset."""
        low = sum(min(0, step * (count - 1)) for step, count in self.dims)
        high = sum(max(0, step * (count - 1)) for step, count in self.dims)
        return low, high + 1

    @cached_property
    def run(self) -> int:
        """Length of one contiguous run, in elements."""
        run = 1
        for step, count in reversed(self.dims):
            if step != run:
                break
            run *= count
        return run

    @cached_property
    def runs(self) -> int:
        """Number of contiguous runs per partition."""
        return self.elements // self.run

    @cached_property
    def pieces(self) -> int:
        """Number of operands of at most `MOST_STEPS` steps that are needed for the elements."""
        apart: list[tuple[int, int]] = []
        for step, count in reversed(self.dims):
            if apart and step == apart[-1][0] * apart[-1][1]:
                apart[-1] = (apart[-1][0], apart[-1][1] * count)
            else:
                apart.append((step, count))
        total = 1
        for _, count in apart[MOST_STEPS:]:
            total *= count
        return total

    @cached_property
    def innermost_step(self) -> int:
        """Distance of two elements along the innermost axis, in elements."""
        return self.dims[-1][0]


_PATTERNS: dict[tuple[tuple[int, int], ...], Pattern] = {}


def pattern(dims: tuple[tuple[int, int], ...]) -> Pattern:
    """The shared `Pattern` of these (step, count) pairs."""
    found = _PATTERNS.get(dims)
    if found is None:
        if len(_PATTERNS) > 100_000:
            _PATTERNS.clear()
        found = _PATTERNS[dims] = Pattern(dims)
    return found


_PATTERNS_OF: dict[tuple[tuple[int, ...], tuple[int, ...]], Pattern] = {}


def pattern_of(steps: tuple[int, ...], shape: tuple[int, ...]) -> Pattern:
    """The shared `Pattern` of a region's steps and shape, partition axis first."""
    found = _PATTERNS_OF.get((steps, shape))
    if found is None:
        if len(_PATTERNS_OF) > 100_000:
            _PATTERNS_OF.clear()
        found = pattern(tuple(zip(steps[1:], shape[1:], strict=True)))
        _PATTERNS_OF[steps, shape] = found
    return found


@dataclass(slots=True, eq=False)
class Loop:
    """One execution of a source loop (a loop inside another has one record per outer iteration)."""

    id: int
    kind: LoopKind
    line: int
    trips: int
    parent: Loop | None
    starts: list[int] = field(default_factory=list)
    """Index of the first instruction of each iteration."""
    stop: int = 0
    """Instruction index one past the last iteration."""
    variable: str = ""
    walked: Sequence[int] = ()
    """Numbers of the iterations that were processed, if not all were."""

    @property
    def depth(self) -> int:
        """Number of loops around this one."""
        depth, loop = 0, self.parent
        while loop is not None:
            depth, loop = depth + 1, loop.parent
        return depth

    def iterations(self) -> Iterator[range]:
        """The instruction indices of each iteration."""
        ends = [*self.starts[1:], self.stop]
        return (range(start, end) for start, end in zip(self.starts, ends, strict=True))


@dataclass(slots=True, eq=False)
class Tensor:
    """One allocation. A tile declared in a loop body is a new tensor in every iteration.

    On chip (SBUF, PSUM) `shape` is block axes, then the partition axis, then free axes; block axes
    multiply the bytes in each partition. In HBM `partition_axis` has no meaning.
    """

    id: int
    name: str
    memory: Memory
    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    partition_axis: int
    kind: TensorKind
    line: int
    loop: Loop | None
    """Innermost loop at its creation; None if it is created once."""
    column: int = 0
    """Together with `line`, the place in the source: tensors of one place use the same buffers in
    turn."""
    first: int = -1
    """Index of the first instruction that uses it (-1: none does)."""
    last: int = -1
    """Index of the last instruction that uses it."""
    text: str = ""
    """For a constant, the numpy expression of its values; empty if it would be too long."""

    @property
    def partitions(self) -> int:
        """Partitions that it takes on chip."""
        return self.shape[self.partition_axis]

    @property
    def bytes_per_partition(self) -> int:
        """Bytes in each partition, block axes included, before any rounding to banks."""
        total = self.itemsize
        for axis, size in enumerate(self.shape):
            if axis != self.partition_axis:
                total *= size
        return total

    @property
    def blocks(self) -> int:
        """Number of tiles: the product of the block axes."""
        total = 1
        for size in self.shape[: self.partition_axis]:
            total *= size
        return total


@dataclass(slots=True, eq=False)
class Access:
    """The elements of one tensor that an instruction reads or writes. On the chip, the place of an
    element is its partition and its offset in the tensor's part in this partition (block axes
    outermost). In HBM, it is the offset in the whole row-major tensor.
    """

    tensor: Tensor
    start_partition: int
    """First partition on chip; 0 in HBM."""
    partitions: int
    """Partitions on the chip's side of the transfer (size of the first axis)."""
    offset: int
    """First element: in the partition (on chip), or in the tensor (HBM)."""
    pattern: Pattern
    partition_step: int = 0
    """HBM: elements between two partitions (0: all read the same)."""
    lanes: int = 1
    """On chip: number of partitions from the first to the last one accessed; DMA may skip some."""
    pieces: int = 1
    """On chip, if steps do not describe the access: number of operands that access its elements."""

    @property
    def elements(self) -> int:
        """Elements per partition."""
        return self.pattern.elements

    @property
    def bytes(self) -> int:
        """Bytes over all partitions."""
        return self.partitions * self.pattern.elements * self.tensor.itemsize

    @property
    def run_bytes(self) -> int:
        """Bytes of one contiguous run (one DMA descriptor) of one partition."""
        return self.pattern.run * self.tensor.itemsize

    @property
    def span(self) -> tuple[int, int]:
        """The first byte touched, and one past the last byte: in each partition (on the chip), or
        in the tensor (HBM). Two accesses to one tensor can depend on each other only if these
        ranges (and on the chip the partitions) overlap.
        """
        low, high = self.pattern.span
        size = self.tensor.itemsize
        if self.tensor.memory == "hbm":
            reach = self.partition_step * (self.partitions - 1)
            low, high = low + min(0, reach), high + max(0, reach)
        return (self.offset + low) * size, (self.offset + high) * size


@dataclass(slots=True, eq=False)
class Instruction:
    """One machine instruction, or one DMA transfer."""

    opcode: str
    engine: Engine
    line: int
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    attributes: Mapping[str, object]
    loop: Loop | None
    """The innermost enclosing loop."""
    name: str
    """The function that the kernel called, such as `nl.load`; for an implicit instruction, the
    function that needed it."""
    active: float = 1.0
    """Share of the elements that the mask selects (0 < active <= 1)."""
    implicit: str = ""
    """Why the NKI 1 compiler inserts it, in words ("" if the kernel requested it)."""


@dataclass(slots=True, eq=False)
class Trace:
    """Everything that a kernel does, in program order."""

    language: Literal[1, 2]
    """Version of NKI: 1 (`neuronxcc.nki`) or 2 (`nki`)."""
    instructions: list[Instruction] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    """Indexed by `Tensor.id`."""
    loops: list[Loop] = field(default_factory=list)
    """Indexed by `Loop.id`, in the order in which they were entered."""
    outputs: tuple[int, ...] = ()
    """Identifiers of the tensors that the kernel returns."""
