"""The state of one pass through a kernel: its position, its record, and its limits.

The same pass has two modes. In traced mode, it records every instruction and needs no data. In
valued mode, it computes on arrays and records nothing. Both modes check all shapes, memories and
limits.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.machine import Machine
from tilewright.targets.trainium.recording import Recorder
from tilewright.targets.trainium.repeating import (
    FEWEST,
    LEADING,
    Advance,
    Mark,
    Repetition,
    drawn,
    repetition_of,
)
from tilewright.targets.trainium.tiles.buffer import Buffer, Result, Scope
from tilewright.targets.trainium.tiles.dtypes import DType
from tilewright.targets.trainium.tiles.fitting import bounds_of, fit_mask
from tilewright.targets.trainium.tiles.grid import Grid
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.tiles.indexing import part
from tilewright.targets.trainium.tiles.view import View, whole
from tilewright.targets.trainium.trace import (
    NO_ATTRIBUTES,
    Access,
    Engine,
    Instruction,
    Loop,
    LoopKind,
    Memory,
    Tensor,
    TensorKind,
    Trace,
)
from tilewright.targets.trainium.undefined import Undefined


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the resources of a kernel during a pass."""

    steps: int = 20_000_000
    """Maximum number of statements and iterations."""
    instructions: int = 1_000_000
    """Maximum number of recorded instructions."""
    value_bytes: int = 2 << 30
    """Maximum number of bytes of all arrays that are not arguments, at one time."""
    cpu_s: float = 120.0
    """Maximum CPU time of the thread, because a single statement may copy a million items."""


BY_ELEMENT = frozenset({
    "dma_copy", "tensor_copy", "memset", "tensor_tensor", "tensor_scalar", "select",
    "scalar_tensor_tensor", "reciprocal", "tensor_copy_predicated",
})  # fmt: skip
"""Instructions in which each element of the result depends only on the same element of operands.

Under a mask, they take no more than the box around the elements that it leaves."""

_STEPS_BETWEEN_LOOKS = 256
"""Number of steps after which the clock is read, because reading it takes longer than a step."""


class Execution:
    """One pass; see the module."""

    def __init__(
        self,
        machine: Machine,
        language: int,
        *,
        trace: Trace | None,
        shuffle: int | None = None,
        elide_casts: bool = False,
        limits: Limits | None = None,
    ) -> None:
        """Traced mode if `trace` is given, otherwise valued mode.

        `shuffle` is the seed of another order for the iterations of every `affine_range`. With
        `elide_casts`, a result that is moved before it is read keeps the digits that its own type
        would have rounded away, as with the NKI 1 compiler.
        """
        self.machine = machine
        self.language = language
        self.trace = trace
        self.elide_casts = elide_casts
        self.limits = limits or Limits()
        self.recorder: Recorder | None = None
        """Keeps the regions of every recorded instruction, if they are needed."""
        self.undefined: Undefined | None = None
        """Follows undefined values, in a run that finds where those of an output come from."""
        self.sampled: frozenset[int] = frozenset()
        """Lines of loops of which only some iterations are processed."""
        self.repeating = False
        """Whether iterations may be recorded without being interpreted."""
        self.seed = ""
        """Decides which iteration in the middle of a repeated loop is interpreted."""
        self.middles = True
        """Whether one is interpreted."""
        self.left_out = False
        """Whether iterations were not interpreted."""
        self.seen: dict[int, Buffer] | None = None
        """In a loop whose iterations may be repeated: its tiles with notes of who wrote them."""
        self.first_written: set[int] = set()
        """In such a loop: tiles of zeros in PSUM to which `+=` wrote regions for the first time."""
        self.homes: dict[tuple[int, np.dtype[Any]], NDArray[Any]] = {}
        """Memory for tensors of HBM by number of elements and type; each is used once."""
        self.line = 0
        self.column = 0
        """Position of the current call."""
        self.steps = 0
        self._look_at = min(self.limits.steps + 1, _STEPS_BETWEEN_LOOKS)
        self._started_s = time.thread_time()
        self.depth = 0
        """Number of nested calls of the kernel's own functions."""
        self.tries = 0
        """Number of `try` statements with handlers that are being executed."""
        self.closing = 0
        """Number of generators that are being ended."""
        self.scope = Scope(None, None, 0, 0)
        self.scopes = [self.scope]
        self.loop: Loop | None = None
        self.grid: Grid | None = None
        """The grid of a kernel that was launched with one."""
        self.chance = np.random.default_rng(0)
        """Random numbers for `nisa.dropout` and `nl.rand`."""
        self.reduced: dict[tuple[int, ...], View] = {}
        """NKI 1: results of `nl.loop_reduce`, by place and by the iteration of the enclosing
        loops that are not reduced."""
        self.function = ""
        """The function that the kernel called last, for messages."""
        self.reducer: NDArray[np.float32] | None = None
        """The hidden accumulator of ACT, with one number for each partition."""
        self.reducer_valid = False
        self._serial = 0
        self._host_bytes = 0
        self.arrays_changed = False
        """Whether the kernel has changed elements of an array of numpy. The expressions of arrays
        may then create other values."""
        self._legal_tiles: set[tuple[tuple[int, ...], Memory, int]] = set()
        self.legal_partitions: set[tuple[int, int, tuple[int, ...]]] = set()
        """First partition, number of partitions and steps of operands that have been accepted."""
        self._random = None if shuffle is None else random.Random(shuffle)

    @property
    def valued(self) -> bool:
        """Whether values are computed."""
        return self.trace is None

    def step(self, count: int = 1) -> None:
        """Count statements or iterations."""
        self.steps += count
        if self.steps >= self._look_at:
            self._require_time()

    def take_host_bytes(self, count: int) -> None:
        """Count bytes of arrays that the kernel creates with numpy. They are never released."""
        self._host_bytes += count
        if self._host_bytes > self.limits.value_bytes:
            raise KernelError(
                "too_large",
                f"the NumPy arrays of the kernel need more than {self.limits.value_bytes >> 20} "
                "MiB",
            )

    def _require_time(self) -> None:
        """Raises `KernelError` for a kernel that has exceeded its time."""
        limits = self.limits
        self._look_at = min(limits.steps + 1, self.steps + _STEPS_BETWEEN_LOOKS)
        late = ""
        if self.steps > limits.steps:
            late = f"{limits.steps:,} statements and iterations"
        elif time.thread_time() - self._started_s > limits.cpu_s:
            late = f"{limits.cpu_s:g} s"
        if late:
            message = f"the kernel was stopped after {late}"
            raise KernelError("too_long", message, self.line, "timeout")

    # ---- loops

    def iterate(
        self,
        kind: LoopKind,
        values: Sequence[int],
        line: int,
        variable: str = "",
        *,
        even: bool = False,
    ) -> Iterator[int]:
        """The values of a loop variable, each in a separate scope.

        If the text of an `even` loop makes all iterations alike, only some of them are interpreted
        for a trace (`repeating`).
        """
        loop = Loop(0, kind, line, len(values), self.loop, variable=variable)
        if line in self.sampled:
            loop.walked = _sample(len(values))
            values = [values[number] for number in loop.walked]
        if self.trace is not None:
            loop.id = len(self.trace.loops)
            self.trace.loops.append(loop)
        elif kind == "affine" and self._random is not None:
            values = list(values)
            self._random.shuffle(values)
        outer_scope, outer_loop = self.scope, self.loop
        self.loop = loop
        starts = loop.starts
        instructions = self.trace.instructions if self.trace is not None else ()
        scope = outer_scope
        repeats = even and self._may_repeat(line, len(values))
        repetition: Repetition | None = None
        marks: list[Mark] = []
        outer_seen, self.seen = self.seen, {} if repeats else self.seen
        outer_first, self.first_written = self.first_written, set()
        before, serial = self.steps, self._serial
        middles, checked = self.middles, list[int]()
        try:
            for number, value in enumerate(values):
                if repeats and number == LEADING:
                    assert self.trace is not None
                    checked = drawn(self.seed, loop) if middles else []
                    checked = [*checked, loop.trips - 1]
                    repetition = repetition_of(self.trace, loop, marks, checked)
                    if repetition is not None and not self._stays_first(repetition, serial):
                        repetition = None
                    if repetition is not None:
                        self._count_repeated(repetition, (self.steps - before) // LEADING)
                if repetition is not None and number not in checked:
                    self.left_out = True
                    continue
                if repeats:
                    self.middles = (
                        middles
                        and number >= LEADING
                        and (repetition is None or number == checked[0])
                    )
                self.step()
                if repeats and self.trace is not None:
                    marks.append(Mark(len(self.trace.tensors), len(self.trace.loops)))
                starts.append(len(instructions))
                self._serial += 1
                scope = self.scope = Scope(outer_scope, loop, number, self._serial)
                scope.value = value
                if kind == "static":  # unrolled by hand: its tiles exist after it
                    scope.home = outer_scope.home
                self.scopes.append(scope)
                yield value
                scope.alive = False
            if repetition is not None and self.trace is not None:
                repetition.complete(self.trace, loop, marks)
                self._stamp_repeated(repetition)
        finally:
            self.seen, self.first_written = outer_seen, outer_first
            self.middles = middles
            scope.alive = scope is outer_scope
            self.scope, self.loop = outer_scope, outer_loop
            loop.stop = len(instructions)

    def _may_repeat(self, line: int, trips: int) -> bool:
        return (
            self.repeating
            and self.trace is not None
            and self.recorder is None
            and line not in self.sampled
            and trips >= FEWEST
        )

    def _count_repeated(self, repetition: Repetition, steps: int) -> None:
        """Count the iterations that are not interpreted, before they are recorded."""
        assert self.trace is not None
        left = repetition.trips - LEADING
        self.step(steps * (left - len(repetition.checked)))  # those count themselves
        self._require_instructions(
            len(self.trace.instructions) + repetition.instructions * left - 1
        )

    def _stays_first(self, repetition: Repetition, serial: int) -> bool:
        """Whether `+=` is the first write to its region in all iterations, as in the first ones.

        If one operand accesses the tile, and only these iterations (numbered from `serial`) have
        written to what it accesses, no iteration can have written to the region of another one.
        """
        advances = [a for a in repetition.advances() if a.tensor.id in self.first_written]
        if len({a.tensor.id for a in advances}) < len(advances):
            return False
        parts = [self._stamps_of(advance) for advance in advances]
        return all(p is not None and bool(((p < 0) | (p > serial)).all()) for p in parts)

    def _stamps_of(self, advance: Advance) -> NDArray[np.int32] | None:
        """The stamps of what all iterations access together; None without stamps."""
        buffer = (self.seen or {}).get(advance.tensor.id)
        if buffer is None or buffer.stamps is None or buffer.scope is self.scope.home:
            return None
        size = 128 // len(buffer.stamps)
        last = (advance.first_partition + advance.partitions - 1) // size
        groups = slice(advance.first_partition // size, last + 1)
        return buffer.stamps[groups, advance.low : advance.high]

    def _stamp_repeated(self, repetition: Repetition) -> None:
        """What `emit` notes and checks, for the iterations that were not interpreted."""
        for advance in repetition.advances():
            part = self._stamps_of(advance)
            if part is None:
                continue
            if advance.written:
                part[...] = self.scope.serial
            else:
                self._refuse_carried(np.unique(part).tolist())

    # ---- tensors

    def new_buffer(
        self,
        shape: Sequence[int],
        dtype: DType,
        memory: Memory,
        kind: TensorKind,
        name: str = "",
        partition_axis: int = 0,
    ) -> Buffer:
        """An allocation without storage, for which the rules for shapes on the chip are checked."""
        sizes = tuple(shape)
        if memory != "hbm":
            self._check_tile_shape(sizes, memory, partition_axis)
        record = Tensor(
            -1, name, memory, dtype.name, dtype.itemsize, sizes, partition_axis, kind,
            self.line, self.loop, self.column,
        )  # fmt: skip
        if self.trace is not None:
            record.id = len(self.trace.tensors)
            self.trace.tensors.append(record)
        found = Buffer(record, dtype, self.scope.home)
        if memory == "hbm" and kind != "input" and self.homes:
            found.home = self.homes.pop((found.row, dtype.storage), None)
        return found

    def _check_tile_shape(self, shape: tuple[int, ...], memory: Memory, axis: int) -> None:
        key = (shape, memory, axis)
        if key in self._legal_tiles:
            return
        limits = self.machine.memory
        if len(shape) - axis < 2:
            raise KernelError(
                "insufficient_rank",
                f"Insufficient rank: a tile of shape {shape} needs a partition and a free axis",
            )
        if shape[axis] > limits.partitions:
            raise KernelError(
                "num_partition_exceed_arch_limit",
                f"a tile of shape {shape} has {shape[axis]} partitions (axis {axis}): the limit is "
                f"{limits.partitions}",
            )
        free = 1
        for size in shape[axis + 1 :]:
            free *= size
        most = limits.psum_tile_elements if memory == "psum" else limits.sbuf_tile_elements
        if free > most:
            raise KernelError(
                "size_of_dimension_exceed_arch_limit",
                f"a tile of shape {shape} has {free} elements in each partition: the limit in "
                f"{memory.upper()} is {most}",
            )
        self._legal_tiles.add(key)

    # ---- operands

    def use(self, view: View) -> None:
        """Called before a region is read: the tensor must still exist, and its values are
        settled."""
        buffer = view.buffer
        if not buffer.scope.alive and self.language == 1:
            raise KernelError(
                "local_variable_used_out_of_scope",
                f"a tile declared in a loop body (line {buffer.record.line}) is used outside of "
                "that iteration: declare it before the loop",
            )
        if buffer.result is not None:
            settle(self, buffer)

    def check_bounds(self, view: View, mask: NDArray[np.bool_] | None) -> None:
        """Indices out of bounds are allowed only if they are masked."""
        gather = view.gather
        if gather is None or gather.inside is None:
            return
        outside = ~np.broadcast_to(gather.inside, view.shape)
        if mask is not None:
            outside = outside & mask
        if outside.any():
            raise KernelError(
                "tensor_access_out_of_bound",
                f"{gather.complaint(outside)} of a tensor of shape {view.buffer.shape}"
                f"{'' if mask is None else ', where the mask is true'}",
            )

    def mask_array(self, mask: Mask | None, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
        """The mask over a region; None if it masks nothing."""
        if mask is None or mask.always:
            return None
        return fit_mask(mask.array, shape)

    # ---- instructions

    def emit(
        self,
        opcode: str,
        engine: Engine,
        reads: Sequence[View],
        writes: Sequence[View],
        attributes: Mapping[str, object] = NO_ATTRIBUTES,
        *,
        mask: Mask | None = None,
        implicit: str = "",
        carried: View | None = None,
        settings: Mapping[str, object] = NO_ATTRIBUTES,
    ) -> Instruction | None:
        """Record an instruction in traced mode. `carried` is read through a legal `+=`.

        `settings` are its operands that are not tiles, for the recorder.
        """
        trace = self.trace
        if trace is None or (mask is not None and mask.always is False):
            return None
        instructions = trace.instructions
        number = len(instructions)
        self._require_instructions(number)
        operands = tuple(reads)
        for view in (*reads, *writes):
            gather = view.gather
            if gather is None:
                continue
            if gather.by is not None:
                reads = (*reads, gather.by)
                attributes = {**attributes, "indirect": True}
            if gather.inside is not None:
                joined = mask if view.mask is None else view.mask & (True if mask is None else mask)
                self.check_bounds(view, self.mask_array(joined, view.shape))
        if self.language == 1:
            for view in reads:
                if view is not carried:
                    self._check_carried(view)
            if engine == "dma" and mask is None and not attributes.get("accumulate"):
                for view in writes:
                    self._note_store(view)
        active, accessed = 1.0, (tuple(reads), tuple(writes))
        if mask is not None and mask.always is None and writes:
            kept = self.mask_array(mask, writes[0].shape)
            assert kept is not None
            active = max(float(kept.mean()), 1e-9)
            if opcode in BY_ELEMENT and not kept.all() and kept.any():
                box = bounds_of(kept)
                accessed = _within(reads, box, kept.shape), _within(writes, box, kept.shape)
        found = Instruction(
            opcode,
            engine,
            self.line,
            tuple([self.recorded(view, number) for view in accessed[0]]),
            tuple([self.recorded(view, number) for view in accessed[1]]),
            attributes,
            self.loop,
            self.function,
            active,
            implicit,
        )
        for view in writes:
            self.stamp(view)
            if mask is not None and view.buffer.result is not None:
                view.buffer.result.mask = mask  # it limits where the result may be assigned
        instructions.append(found)
        if self.recorder is not None:
            self.recorder.add(found, operands, tuple(writes), mask, settings)
        return found

    def _require_instructions(self, number: int) -> None:
        """Raises `KernelError` if no instruction may have this number."""
        if number >= self.limits.instructions:
            raise KernelError(
                "too_long",
                f"the kernel was stopped after {self.limits.instructions:,} instructions: the "
                "limit of this interpreter",
                self.line,
                "timeout",
            )

    def recorded(self, view: View, number: int) -> Access:
        """The access by instruction `number`, which becomes part of the tensor's live range."""
        access = view.access()
        record = access.tensor
        if record.first < 0:
            record.first = number
        record.last = number
        return access

    # ---- values carried between iterations (NKI 1)

    def stamp(self, view: View) -> None:
        """Record which iteration wrote a region that exists after the iteration."""
        buffer = view.buffer
        buffer.written = True
        if self.seen is not None:
            self.seen[buffer.record.id] = buffer
        if self.language == 2 or buffer.scope is self.scope.home or buffer.axis < 0:
            return
        if buffer.stamps is None:
            buffer.stamps = np.full((4, buffer.row), -1, np.int32)
        if view.gather is None and view.p0 % 32 and len(buffer.stamps) == 4:
            buffer.stamps = np.repeat(buffer.stamps, 32, axis=0)
        _stamped(buffer.stamps, view)[...] = self.scope.serial

    def _note_store(self, view: View) -> None:
        """Record whether iterations of an affine loop write one region of HBM."""
        buffer = view.buffer
        if buffer.axis >= 0 or buffer.rewritten is not None or view.mask is not None:
            return
        gather = view.gather
        if gather is not None and gather.by is not None:
            return  # the indices are not known
        key = (
            (view.f0, view.shape, view.fsteps)
            if gather is None
            else (gather.free.shape, hash(gather.free.tobytes()), gather.inside is None)
        )
        before = buffer.stored.get(key)
        buffer.stored[key] = self.scope.serial
        if before is not None and self._in_other_iteration(self.scopes[before]):
            buffer.rewritten = KernelError(
                "unexpected_output_dependencies",
                f"{self.function} writes the same elements of an output in every iteration of an "
                "affine_range: index the output by the loop variable, or use sequential_range",
                self.line,
            )

    def untouched(self, view: View) -> bool:
        """Whether a region that is now written has not been written since its buffer was created
        (traced mode)."""
        buffer = view.buffer
        first = not buffer.written or (
            buffer.stamps is not None and bool((_stamped(buffer.stamps, view) == -1).all())
        )
        if first:
            self.first_written.add(buffer.record.id)
        return first

    def _check_carried(self, view: View) -> None:
        buffer = view.buffer
        if buffer.scope is self.scope.home or buffer.stamps is None:
            return
        if self.seen is not None:
            self.seen[buffer.record.id] = buffer
        stamps = _stamped(buffer.stamps, view)
        content = stamps.tobytes()  # faster to compare than arrays for the usual small tiles
        alike = content == content[: stamps.itemsize] * stamps.size
        serials = [stamps.item(0)] if alike else np.unique(stamps).tolist()
        self._refuse_carried(serials)

    def _refuse_carried(self, serials: Sequence[int]) -> None:
        """Raises `KernelError` if another iteration of an affine loop wrote a region that is
        read."""
        for serial in serials:
            if serial >= 0 and self._in_other_iteration(self.scopes[serial]):
                raise KernelError(
                    "unexpected_output_dependencies",
                    f"{self.function} reads what another iteration of the same affine_range wrote: "
                    "iterations of affine_range must not depend on one another, use "
                    "sequential_range",
                )

    def _in_other_iteration(self, writer: Scope) -> bool:
        """Whether a scope is another iteration of an affine loop that is in progress."""
        if writer.alive or writer.parent is None:
            return False
        while writer.parent is not None and not writer.parent.alive:
            writer = writer.parent
        if writer.loop is None or writer.loop.kind != "affine":
            return False
        here: Scope | None = self.scope
        while here is not None and here.parent is not writer.parent:
            here = here.parent
        return here is not None and here.loop is writer.loop and here is not writer


def _within(
    views: Sequence[View], box: tuple[slice, ...], shape: tuple[int, ...]
) -> tuple[View, ...]:
    """Operands of this shape without what lies outside of the box."""
    return tuple(part(view, box) if view.shape == shape else view for view in views)


def _stamped(stamps: NDArray[np.int32], view: View) -> NDArray[np.int32]:
    """The stamps of a region: for each group of 32 partitions, or for each partition of a tile of
    which something was written from within a group."""
    if view.gather is not None:
        low, high = int(view.gather.free.min()), int(view.gather.free.max())
        return stamps[:, low : high + 1]
    size = 128 // len(stamps)
    groups = slice(view.p0 // size, (view.p0 + max(view.shape[0], 1) - 1) // size + 1)
    part = stamps[groups]
    shape = (part.shape[0], *view.shape[1:])
    strides = (stamps.strides[0], *[4 * step for step in view.fsteps[1:]])
    start = groups.start * stamps.strides[0] + 4 * view.f0
    return np.ndarray(shape, np.int32, stamps, start, strides)


def settle(run: Execution, buffer: Buffer) -> None:
    """Convert a fresh result to an ordinary tile, which is read from where it was computed.

    In traced mode, a result that was moved is copied back from there.
    """
    result = buffer.result
    if result is not None and not run.valued:
        copy_landed(run, buffer, result)
    buffer.result = None
    if result is None or not run.valued:
        return
    values = result.values
    if values is None:
        buffer.allocate()
        return
    mask = run.mask_array(result.mask, values.shape)
    rounded = values if result.rounded else buffer.dtype.rounded(values)
    if mask is None:
        buffer.data = np.ascontiguousarray(rounded).reshape(buffer.rows, buffer.row)
        return
    buffer.allocate()
    assert buffer.data is not None
    np.copyto(buffer.data.reshape(values.shape), rounded, where=mask)


def copy_landed(run: Execution, buffer: Buffer, result: Result) -> None:
    """In traced mode, a result that was moved and is used again is copied from its first
    destination."""
    if result.summed:
        raise KernelError(
            "unsupported_operand",
            f"the product of line {buffer.record.line} was added to a tile in PSUM and is used "
            "again: copy it to a separate tile with nl.copy before adding it",
        )
    place = result.place
    if place is None:
        return
    result.place = None
    copy = run.emit(
        "tensor_copy", "any", (place,), (whole(buffer),), carried=place,
        implicit="a result is assigned to one tile and used again",
    )  # fmt: skip
    result.instructions = [copy] if copy is not None else []
    result.product = False


def _sample(trips: int) -> Sequence[int]:
    """Iterations that determine all others if they differ evenly."""
    return (0, 1, trips * 5 // 8, trips - 1) if trips > 4 else range(trips)
