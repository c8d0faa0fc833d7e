"""Translates a kernel to NKI 2, from any version and style that can be traced.

The kernel is traced, and its loops are reconstructed from the trace. All Python constructs
(functions, classes, lists, grids, masks, copies out of PSUM that the older compiler inserts) are
replaced by their effects, and sizes and constants are numbers. The text is meant for programs:
regions are given by their patterns. It is checked like every other kernel before its results are
used.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from tilewright.parts.memory import without_collection
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution, Limits
from tilewright.targets.trainium.machine import Machine
from tilewright.targets.trainium.program import Call, Program, parse, walked
from tilewright.targets.trainium.recording import Recorder
from tilewright.targets.trainium.trace import Loop, Tensor, Trace
from tilewright.targets.trainium.translation.clipping import (
    Operands,
    UntranslatableError,
    places,
)
from tilewright.targets.trainium.translation.lines import ONES, Line, lines
from tilewright.targets.trainium.translation.masked_selection import Choosing
from tilewright.targets.trainium.translation.rolling import (
    Item,
    Made,
    Rolled,
    UnevenError,
    rolled,
    spanned,
)
from tilewright.targets.trainium.translation.sampling import sampled_loops
from tilewright.targets.trainium.translation.spilling import Spill
from tilewright.targets.trainium.translation.text import printed, text

MOST_LINES = 2000
"""Maximum number of statements of a kernel that is worth translating."""


def translated(source: str, call: Call, machine: Machine, limits: Limits | None = None) -> str:
    """The kernel in NKI 2.

    Raises `KernelError` for a kernel that breaks a rule, and `UntranslatableError` for features
    that NKI 2 lacks.
    """
    program = parse(source)
    lines_of_loops = sampled_loops(program.tree, program.language)
    if lines_of_loops:
        try:
            return _translated(program, call, machine, limits, lines_of_loops)
        except (KernelError, UntranslatableError, UnevenError):
            pass  # the iterations in between may differ, so all of them are processed
    return _translated(program, call, machine, limits, frozenset())


def _translated(
    program: Program, call: Call, machine: Machine, limits: Limits | None, sampled: frozenset[int]
) -> str:
    """The kernel from a pass in which only some iterations of these loops, given by lines, are
    processed."""
    trace = Trace(program.language)
    run = Execution(machine, program.language, trace=trace, limits=limits)
    run.recorder, run.sampled = (recorder := Recorder()), sampled
    trace.outputs = walked(program, call, run)
    builder = _Builder(trace, recorder)
    with without_collection():
        body = builder.body()
    if sum(1 for _ in printed(body, {}, "")) > MOST_LINES:
        raise UntranslatableError("loops whose iterations differ in too many ways")
    return text(body, trace, call, builder.spill.names)


class _Builder:
    """Converts the recorded instructions back to loops."""

    def __init__(self, trace: Trace, recorder: Recorder) -> None:
        self._trace = trace
        self._entries = recorder.entries
        self._children: dict[int, list[Loop]] = {}
        for loop in trace.loops:
            if loop.starts and loop.stop > loop.starts[0]:
                parent = -1 if loop.parent is None else loop.parent.id
                self._children.setdefault(parent, []).append(loop)
        self._overwriting = self._written_again()
        self._choosing = Choosing(recorder.entries)
        self._used: set[int] = set()
        self.spill = Spill(trace.tensors)
        self._constants, self._same = self._distinct_constants()
        self._homes = self._made_where()

    def body(self) -> list[Item]:
        """The whole kernel."""
        found = _used(self._items(None, 0, len(self._entries)), self._used)
        ones = [t for t in ONES.values() if t in self._used]
        head: list[Item] = [
            Made(t.id, ("constant", self._constant(t)))
            for t in self._constants
            if t.id in self._used
        ]
        for tensor in ones:
            head.append(Made(tensor, ("ones",)))
            dims = ((128, 1), (1, 128))
            head.append(Line("memset", (("dst", dims), ("value", "1.0")), (tensor,), ((0, ()),)))
        return head + found

    def _made_where(self) -> dict[tuple[int, int], list[Tensor]]:
        """The tensors by the loop in which they are created (-1: none) and its iteration.

        A tile is created in the innermost loop around its creation of which one iteration contains
        all its uses.
        """
        found: dict[tuple[int, int], list[Tensor]] = {}
        for tensor in self._trace.tensors:
            if tensor.first < 0 or tensor.kind in ("input", "constant"):
                continue
            loop = tensor.loop
            while loop is not None:
                number = _iteration(loop, tensor.first)
                if number is not None and number == _iteration(loop, tensor.last):
                    break
                loop = loop.parent
            key = (-1, 0) if loop is None else (loop.id, _iteration(loop, tensor.first) or 0)
            found.setdefault(key, []).append(tensor)
        return found

    def _written_again(self) -> set[int]:
        """Tiles of PSUM that a product overwrites after another instruction has written them.

        By default, products of NKI 2 add to what was written since the tile was created.
        """
        written: set[int] = set()
        found: set[int] = set()
        places_of: dict[int, set[tuple[object, ...]]] = {}
        for entry in self._entries:
            view = entry.writes[0]
            record = view.buffer.record
            if record.memory != "psum":
                continue
            if entry.instruction.opcode != "nc_matmul":
                written.add(record.id)
                continue
            place = (view.p0, view.f0, view.shape, view.fsteps)
            before = places_of.setdefault(record.id, set())
            adds = bool(entry.instruction.attributes.get("accumulate"))
            overlaps = place in before if view.gather is None else bool(before)
            if (overlaps or record.id in written) and (not adds or record.id in written):
                found.add(record.id)
            before.add(place)
        return found

    def _items(self, loop: Loop | None, start: int, stop: int) -> list[Item]:
        """The items of one iteration of a loop, or of the kernel."""
        key = (-1, 0) if loop is None else (loop.id, _iteration(loop, start) or 0)
        waiting = sorted(self._homes.get(key, ()), key=lambda tensor: tensor.first)
        children = self._children.get(key[0], ())
        inner = [c for c in children if start <= c.starts[0] < stop]
        found: list[Item] = []
        at = start
        for child in [*inner, None]:
            end = stop if child is None else child.starts[0]
            for number in range(at, end):
                self._make(waiting, number, found)
                found.extend(self._lines(number))
            if child is not None:
                self._make(waiting, child.stop - 1, found)
                found.extend(self._loop(child))
                at = child.stop
        return found

    def _loop(self, loop: Loop) -> list[Item]:
        iterations = [self._items(loop, part.start, part.stop) for part in loop.iterations()]
        if 0 < len(loop.walked) < loop.trips:
            return spanned(loop.kind, loop.depth, iterations, loop.walked)
        return rolled(loop.kind, loop.depth, iterations)

    def _lines(self, number: int) -> list[Item]:
        entry = self._entries[number]
        instruction = entry.instruction
        accumulates: bool | None = None
        if entry.writes[0].buffer.record.id in self._overwriting:
            accumulates = bool(instruction.attributes.get("accumulate"))

        def made(operands: Operands) -> list[Line]:
            return list(lines(entry, *operands, accumulates))

        try:
            found: list[Item] = []
            try:
                for operands in places(entry):
                    found.extend(self.spill.around(entry, operands, made))
            except UntranslatableError as error:
                found = [*self._choosing.lines(number, error)]
        except UntranslatableError as error:
            raise UntranslatableError(str(error), error.line or instruction.line) from None
        for at, item in enumerate(found):
            if isinstance(item, Line):
                tensors = tuple(self._same.get(number, number) for number in item.tensors)
                found[at] = replace(item, tensors=tensors)
                self._used.update(tensors)
        return found

    def _distinct_constants(self) -> tuple[list[Tensor], dict[int, int]]:
        """The distinct constants, and for each other one the equal constant."""
        first: dict[tuple[object, ...], Tensor] = {}
        same: dict[int, int] = {}
        for tensor in self._trace.tensors:
            if tensor.kind == "constant":
                key = (tensor.text or tensor.id, tensor.shape, tensor.dtype)
                same[tensor.id] = first.setdefault(key, tensor).id
        return list(first.values()), same

    @staticmethod
    def _constant(tensor: Tensor) -> str:
        """The expression of a constant, with its shape and type."""
        if not tensor.text:
            raise UntranslatableError("an array of constants with a long expression", tensor.line)
        values = f"{tensor.text}.reshape({tensor.shape})"
        return f"nl.shared_constant({values}, dtype=nl.{tensor.dtype})"

    def form(self, tensor: Tensor) -> tuple[object, ...]:
        """Shape, type and memory of a tensor."""
        memory: str = tensor.memory
        if memory == "hbm":
            return (tensor.shape, tensor.dtype, "shared_hbm" if tensor.kind == "output" else memory)
        axis = tensor.partition_axis
        shape = (tensor.shape[axis], *tensor.shape[:axis], *tensor.shape[axis + 1 :])
        return (shape, tensor.dtype, "hbm" if tensor.id in self.spill else memory)

    def _make(self, waiting: list[Tensor], number: int, found: list[Item]) -> None:
        """Tensors are created directly before the instruction that uses them first."""
        while waiting and waiting[0].first <= number:
            tensor = waiting.pop(0)
            found.append(Made(tensor.id, self.form(tensor)))


def _used(body: Sequence[Item], used: set[int]) -> list[Item]:
    """The items without unused tensors, such as fresh results that were assigned elsewhere."""
    return [
        replace(item, body=tuple(_used(item.body, used))) if isinstance(item, Rolled) else item
        for item in body
        if not isinstance(item, Made) or item.tensor in used
    ]


def _iteration(loop: Loop, number: int) -> int | None:
    """The iteration of a loop to which an instruction belongs."""
    if not loop.starts or not loop.starts[0] <= number < loop.stop:
        return None
    return bisect_right(loop.starts, number) - 1
