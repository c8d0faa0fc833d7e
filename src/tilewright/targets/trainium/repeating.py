"""Records most iterations of a loop from its first two and its last one.

A kernel of 100,000 instructions usually has loops with many equal iterations. If the text of a body
shows that all of its iterations differ only in numbers that are linear in the loop variable
(`language/repeated.py`), every region begins at such a number. The remaining iterations then have
the same instructions as the first two, at places that grow evenly. The last iteration is
interpreted too, and for half of the loops one in the middle. A hash of the kernel's text decides
which loops and iterations. If one of these iterations is not where the first two place it, the
kernel is traced again without this. To save time, the loops inside such a loop have no iteration
in their middle interpreted, except in the first of its iterations after the first two that is.

Between iterations, the interpreter of NKI 2 only remembers which addresses of PSUM hold a product
or a transpose, so no iteration may write one into a tile from outside the loop. In a tile of its
own, each iteration must write them at the same places, because products at the same address are
added. For NKI 1, the interpreter also remembers which iteration wrote a region. A loop of NKI 1 is
therefore repeated only if it contains no other loop, no product and no transfer, and if no tile
from outside the loop is both read and written, so that no iteration depends on another.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.targets.trainium.trace import Access, Instruction, Loop, Tensor, Trace

LEADING = 2
"""Number of iterations that are interpreted before the others are recorded."""
SHARE = 0.5
"""Share of the loops of which an iteration in the middle is interpreted too. In every loop, this
would take 25 % of the time of a trace."""
FEWEST = 12
"""Loops with fewer iterations are interpreted completely."""
_REMEMBERED = ("nc_matmul", "nc_transpose")
"""Instructions that later products in PSUM may add to."""
_ENGINES = ("dve", "act", "pool", "any")


class NotRepeated(Exception):
    """A later iteration of a loop is not what the first ones let expect, or breaks a rule."""


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
    """The instructions, tensors and inner loops of one interpreted iteration."""

    begin: int
    """The number of the first instruction."""
    instructions: Sequence[Instruction]
    tensors: Sequence[Tensor]
    loops: Sequence[Loop]

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
        inner = {id(loop): number for number, loop in enumerate(self.loops)}
        loops = [
            (
                p.kind,
                p.line,
                p.trips,
                p.variable,
                p.walked,
                inner.get(id(p.parent), -1),
                [start - self.begin for start in p.starts],
                p.stop - self.begin,
            )
            for p in self.loops
        ]
        made = [
            (
                t.name,
                t.memory,
                t.dtype,
                t.shape,
                t.partition_axis,
                t.kind,
                t.line,
                t.column,
                t.text,
                inner.get(id(t.loop), -1),
            )
            for t in self.tensors
        ]
        return loops + made + [
            (i.opcode, i.engine, i.line, i.attributes, i.name, i.active, i.implicit,
             inner.get(id(i.loop), -1), *[_region(a) for a in i.reads], None,
             *[_region(a) for a in i.writes])
            for i in self.instructions
        ]  # fmt: skip


def _region(access: Access) -> tuple[object, ...]:
    return (
        access.start_partition, access.partitions, access.pattern.dims, access.partition_step,
        access.lanes, access.pieces,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mark:
    """The numbers of tensors and loops that existed before an iteration."""

    tensors: int
    loops: int


def iterations_of(trace: Trace, loop: Loop, marks: Sequence[Mark]) -> list[Iteration]:
    """The iterations that were interpreted so far."""
    ends = [*loop.starts[1:], len(trace.instructions)]
    after = [*marks[1:], Mark(len(trace.tensors), len(trace.loops))]
    return [
        Iteration(a, trace.instructions[a:b], trace.tensors[made.tensors : then.tensors],
                  trace.loops[made.loops : then.loops])
        for a, b, made, then in zip(loop.starts, ends, marks, after, strict=True)
    ]  # fmt: skip


class Repetition:
    """The iterations of a loop, as the first two show them. `checked` are the numbers of the later
    iterations that are interpreted too."""

    def __init__(
        self, first: Iteration, steps: Sequence[int], trips: int, checked: Sequence[int]
    ) -> None:
        self._first, self._steps, self.trips, self.checked = first, steps, trips, checked
        self._form, self._places = first.form(), first.places()

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

    def complete(self, trace: Trace, loop: Loop, marks: Sequence[Mark]) -> None:
        """Add the iterations between the first ones and the last one, which was interpreted."""
        later = iterations_of(trace, loop, marks)[LEADING:]
        if not all(map(self.expects, later, self.checked)):
            raise NotRepeated
        last = later[-1]
        count, begin, made = self.instructions, loop.starts[0], marks[0]
        trace.instructions[loop.starts[LEADING] :] = []
        trace.tensors[marks[LEADING].tensors :] = []
        trace.loops[marks[LEADING].loops :] = []
        for number in range(LEADING, self.trips - 1):
            self._add(trace, loop, number)
        shift = begin + count * (self.trips - 1) - loop.starts[-1]
        trace.instructions += last.instructions
        trace.tensors += last.tensors
        trace.loops += last.loops
        before = self.trips - 1
        for place, tensor in enumerate(last.tensors, made.tensors + len(last.tensors) * before):
            tensor.id = place
        for place, inner in enumerate(last.loops, made.loops + len(last.loops) * before):
            inner.id = place
            inner.starts[:] = [start + shift for start in inner.starts]
            inner.stop += shift
        used = [*last.tensors, *[access.tensor for access in last.operands()]]
        for tensor in {id(tensor): tensor for tensor in used}.values():
            if tensor.last >= loop.starts[-1]:  # the number of an instruction
                tensor.last += shift
            if tensor.first >= loop.starts[-1]:
                tensor.first += shift
        loop.starts[:] = range(begin, begin + count * self.trips, count)

    def expects(self, other: Iteration, number: int) -> bool:
        """Whether an iteration is where the first ones place it."""
        return self._form == other.form() and all(
            place.tensor is found.tensor
            and place.number == found.number
            and found.offset == place.offset + step * number
            for place, found, step in zip(self._places, other.places(), self._steps, strict=True)
        )

    def _add(self, trace: Trace, loop: Loop, number: int) -> None:
        begin, made = len(trace.instructions), len(trace.tensors)
        shift = begin - loop.starts[0]
        loops = {id(loop): loop}
        for place, p in enumerate(self._first.loops, len(trace.loops)):
            assert p.parent is not None
            loops[id(p)] = copied = Loop(
                place, p.kind, p.line, p.trips, loops[id(p.parent)],
                [start + shift for start in p.starts], p.stop + shift, p.variable, p.walked,
            )  # fmt: skip
            trace.loops.append(copied)
        fresh: dict[int, Tensor] = {}
        for place, t in enumerate(self._first.tensors, made):
            fresh[id(t)] = new = Tensor(
                place, t.name, t.memory, t.dtype, t.itemsize, t.shape, t.partition_axis, t.kind,
                t.line, loops[id(t.loop)], t.column, t.first, t.last, t.text,
            )  # fmt: skip
            if t.first >= 0:
                new.first, new.last = t.first + shift, t.last + shift
            trace.tensors.append(new)
        steps = iter(self._steps)
        for i in self._first.instructions:
            reads = tuple([_moved(a, fresh, number * next(steps)) for a in i.reads])
            writes = tuple([_moved(a, fresh, number * next(steps)) for a in i.writes])
            trace.instructions.append(Instruction(
                i.opcode, i.engine, i.line, reads, writes, i.attributes, loops[id(i.loop)], i.name,
                i.active, i.implicit,
            ))  # fmt: skip


def _moved(a: Access, fresh: dict[int, Tensor], by: int) -> Access:
    return Access(
        fresh.get(id(a.tensor), a.tensor), a.start_partition, a.partitions, a.offset + by,
        a.pattern, a.partition_step, a.lanes, a.pieces,
    )  # fmt: skip


def drawn(seed: str, loop: Loop) -> list[int]:
    """The number of an iteration between the first ones and the last one, for every second loop."""
    chance = random.Random(f"{seed} {loop.id}")
    return [chance.randrange(LEADING, loop.trips - 1)] if chance.random() < SHARE else []


def repetition_of(
    trace: Trace, loop: Loop, marks: Sequence[Mark], checked: Sequence[int]
) -> Repetition | None:
    """The repetition that the first two iterations of a loop show; None if they differ, or if one
    may depend on another in a way that the interpreter remembers."""
    leading = iterations_of(trace, loop, marks)
    first = leading[0]
    writes, own = first.writes(), {id(tensor) for tensor in first.tensors}
    operands = first.operands(), leading[1].operands()
    if not first.instructions or len(operands[0]) != len(operands[1]):
        return None
    steps = [b.offset - a.offset for a, b in zip(*operands, strict=True)]
    still = {id(a) for a, step in zip(operands[0], steps, strict=True)
             if not step and id(a.tensor) in own}  # fmt: skip
    if not (_is_forgotten(first, still) if trace.language == 2 else _is_simple(first)):
        return None
    found = Repetition(first, steps, loop.trips, checked)
    if not found.expects(leading[1], 1):
        return None
    if trace.language == 2:
        return found
    outside = [(a, s) for a, s in zip(first.operands(), steps, strict=True)
               if id(a.tensor) not in own]  # fmt: skip
    written = {id(a.tensor) for a, _ in outside if id(a) in writes}
    if any(id(a.tensor) in written and id(a) not in writes for a, _ in outside):
        return None
    return found if all(_leaves_no_gap(access, step) for access, step in outside) else None


def _is_forgotten(iteration: Iteration, still: set[int]) -> bool:
    """NKI 2: whether an iteration writes products and transposes in PSUM only to the operands
    `still`, which are at the same place of its own tiles in all iterations."""
    return all(
        id(access) in still or access.tensor.memory != "psum"
        for i in iteration.instructions if i.opcode in _REMEMBERED for access in i.writes
    )  # fmt: skip


def _is_simple(iteration: Iteration) -> bool:
    """NKI 1: whether an iteration contains no loop, no product and no transfer."""
    return not iteration.loops and all(i.engine in _ENGINES for i in iteration.instructions)


def _leaves_no_gap(access: Access, step: int) -> bool:
    """Whether the iterations together access everything between their first and last elements."""
    pattern = access.pattern
    return (
        pattern.run == pattern.elements
        and abs(step) <= pattern.elements
        and access.lanes in (1, access.partitions)
    )
