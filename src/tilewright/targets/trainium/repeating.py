"""Records most iterations of an innermost loop from its first three and its last one.

A kernel of 100,000 instructions usually has loops with thousands of equal iterations. If the text
of a body contains only sums and products of numbers, calls and regions (`language/repeated.py`),
every region begins at a number that is linear in the loop variable. The remaining iterations then
have the same instructions as the first three, at places that grow evenly. If the last iteration,
which is interpreted too, is not where the first three place it, the kernel is traced again without
this. No tile from outside the loop may be both read and written, so no iteration depends on
another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.targets.trainium.trace import Access, Instruction, Loop, Tensor, Trace

LEADING = 3
"""Number of iterations that are interpreted before the others are recorded."""
FEWEST = 32
"""Loops with fewer iterations are interpreted completely."""
_ENGINES = ("dve", "act", "pool", "any")


class NotRepeated(Exception):
    """The last iteration of a loop is not what the first ones let expect, or breaks a rule."""


@dataclass(frozen=True, slots=True)
class Place:
    """An operand in one iteration: the tensor, or its number among those of the iteration."""

    tensor: Tensor | None
    number: int
    offset: int


@dataclass(frozen=True, slots=True)
class Advance:
    """A tile from outside the loop, and the part of it that all iterations access together."""

    tensor: Tensor
    first_partition: int
    partitions: int
    low: int
    high: int
    """The first element of a partition, and the one after the last."""
    written: bool


@dataclass(frozen=True, slots=True)
class Iteration:
    """The instructions and tensors of one interpreted iteration."""

    instructions: Sequence[Instruction]
    tensors: Sequence[Tensor]

    def operands(self) -> list[Access]:
        """All operands, reads before writes in each instruction."""
        return [a for i in self.instructions for a in (*i.reads, *i.writes)]

    def writes(self) -> set[int]:
        """The identities of the operands that are written."""
        return {id(a) for i in self.instructions for a in i.writes}

    def places(self) -> list[Place]:
        """Where the operands are."""
        numbers = {id(tensor): n for n, tensor in enumerate(self.tensors)}
        return [
            Place(None if id(a.tensor) in numbers else a.tensor, numbers.get(id(a.tensor), -1),
                  a.offset)
            for a in self.operands()
        ]  # fmt: skip

    def form(self) -> list[tuple[object, ...]]:
        """What must be equal in all iterations."""
        made = [
            (t.name, t.memory, t.dtype, t.shape, t.partition_axis, t.kind, t.line, t.column)
            for t in self.tensors
        ]
        return made + [
            (i.opcode, i.engine, i.line, i.attributes, i.name, i.active, i.implicit,
             *[_region(a) for a in i.reads], None, *[_region(a) for a in i.writes])
            for i in self.instructions
        ]  # fmt: skip


def _region(access: Access) -> tuple[object, ...]:
    return (
        access.start_partition, access.partitions, access.pattern.dims, access.partition_step,
        access.lanes, access.pieces,
    )  # fmt: skip


def iterations_of(trace: Trace, loop: Loop, tensors: Sequence[int]) -> list[Iteration]:
    """The iterations that were interpreted so far. `tensors` are the numbers of tensors that
    existed before each one."""
    ends = [*loop.starts[1:], len(trace.instructions)]
    made = [*tensors[1:], len(trace.tensors)]
    return [
        Iteration(trace.instructions[a:b], trace.tensors[c:d])
        for a, b, c, d in zip(loop.starts, ends, tensors, made, strict=True)
    ]


class Repetition:
    """The iterations of a loop, as the first three show them."""

    def __init__(self, first: Iteration, steps: Sequence[int], trips: int) -> None:
        self._first, self._steps, self.trips = first, steps, trips

    @property
    def instructions(self) -> int:
        """Number of instructions of an iteration."""
        return len(self._first.instructions)

    def advances(self) -> list[Advance]:
        """The tiles from outside the loop that it accesses."""
        found = []
        own = {id(tensor) for tensor in self._first.tensors}
        writes = self._first.writes()
        for access, step in zip(self._first.operands(), self._steps, strict=True):
            if id(access.tensor) in own:
                continue
            low, high = access.pattern.span
            reach = step * (self.trips - 1)
            found.append(Advance(
                access.tensor, access.start_partition, access.partitions,
                access.offset + low + min(0, reach), access.offset + high + max(0, reach),
                id(access) in writes,
            ))  # fmt: skip
        return found

    def complete(self, trace: Trace, loop: Loop, tensors: Sequence[int]) -> None:
        """Add the iterations between the first ones and the last one, which was interpreted."""
        last = iterations_of(trace, loop, tensors)[-1]
        if not self._expects(last, self.trips - 1):
            raise NotRepeated
        count, begin, made = self.instructions, loop.starts[0], tensors[0]
        trace.instructions[loop.starts[-1] :] = []
        trace.tensors[tensors[-1] :] = []
        for number in range(LEADING, self.trips - 1):
            self._add(trace, loop, number)
        shift = begin + count * (self.trips - 1) - loop.starts[-1]
        trace.instructions += last.instructions
        trace.tensors += last.tensors
        for place, tensor in enumerate(last.tensors, made + len(last.tensors) * (self.trips - 1)):
            tensor.id = place
        used = [*last.tensors, *[access.tensor for access in last.operands()]]
        for tensor in {id(tensor): tensor for tensor in used}.values():
            if tensor.last >= loop.starts[-1]:  # the number of an instruction
                tensor.last += shift
            if tensor.first >= loop.starts[-1]:
                tensor.first += shift
        loop.starts[:] = range(begin, begin + count * self.trips, count)

    def _expects(self, other: Iteration, number: int) -> bool:
        """Whether an iteration is where the first ones place it."""
        return self._first.form() == other.form() and all(
            place.tensor is found.tensor
            and place.number == found.number
            and found.offset == place.offset + step * number
            for place, found, step in zip(
                self._first.places(), other.places(), self._steps, strict=True
            )
        )

    def _add(self, trace: Trace, loop: Loop, number: int) -> None:
        begin, made = len(trace.instructions), len(trace.tensors)
        shift = begin - loop.starts[0]
        fresh: dict[int, Tensor] = {}
        for place, t in enumerate(self._first.tensors, made):
            fresh[id(t)] = new = Tensor(
                place, t.name, t.memory, t.dtype, t.itemsize, t.shape, t.partition_axis, t.kind,
                t.line, t.loop, t.column, t.first, t.last, t.text,
            )  # fmt: skip
            if t.first >= 0:
                new.first, new.last = t.first + shift, t.last + shift
            trace.tensors.append(new)
        steps = iter(self._steps)
        for i in self._first.instructions:
            reads = tuple([_moved(a, fresh, number * next(steps)) for a in i.reads])
            writes = tuple([_moved(a, fresh, number * next(steps)) for a in i.writes])
            trace.instructions.append(Instruction(
                i.opcode, i.engine, i.line, reads, writes, i.attributes, i.loop, i.name, i.active,
                i.implicit,
            ))  # fmt: skip


def _moved(a: Access, fresh: dict[int, Tensor], by: int) -> Access:
    return Access(
        fresh.get(id(a.tensor), a.tensor), a.start_partition, a.partitions, a.offset + by,
        a.pattern, a.partition_step, a.lanes, a.pieces,
    )  # fmt: skip


def repetition_of(trace: Trace, loop: Loop, tensors: Sequence[int]) -> Repetition | None:
    """The repetition that the first three iterations of a loop show; None if they differ, if they
    transfer or multiply, or if they read what they write."""
    if trace.loops[-1] is not loop:
        return None
    leading = iterations_of(trace, loop, tensors)
    first = leading[0]
    if not first.instructions or any(i.engine not in _ENGINES for i in first.instructions):
        return None
    one, two = first.places(), leading[1].places()
    if len(one) != len(two):
        return None
    steps = [b.offset - a.offset for a, b in zip(one, two, strict=True)]
    found = Repetition(first, steps, loop.trips)
    if not all(found._expects(other, number) for number, other in enumerate(leading)):
        return None
    writes = first.writes()
    outside = [(a, s) for a, p, s in zip(first.operands(), one, steps, strict=True) if p.tensor]
    written = {id(a.tensor) for a, _ in outside if id(a) in writes}
    if any(id(a.tensor) in written and id(a) not in writes for a, _ in outside):
        return None
    if not all(_leaves_no_gap(access, step) for access, step in outside):
        return None
    return found


def _leaves_no_gap(access: Access, step: int) -> bool:
    """Whether the iterations together access everything between their first and last elements."""
    pattern = access.pattern
    return (
        pattern.run == pattern.elements
        and abs(step) <= pattern.elements
        and access.lanes in (1, access.partitions)
    )
