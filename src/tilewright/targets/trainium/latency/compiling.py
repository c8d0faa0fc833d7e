"""Models what the compiler of NKI 1 does to a traced kernel before it runs
(docs/targets/trainium.md).

It removes instructions whose results are not used, merges the iterations of short innermost loops
of vector and scalar instructions into wide instructions, and runs several reductions of longer
loops at a time. The compiler of NKI 2 does none of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.targets.trainium.tiles.regular import patterns
from tilewright.targets.trainium.trace import Access, Instruction, Loop, Trace

WIDEST = 512
"""Maximum number of elements per partition of an instruction that replaces a loop."""
REDUCTIONS = 4
"""Number of iterations of a longer loop whose reductions become one instruction, as seen in the
compiler's output. It is modelled only for loops that access PSUM, because the published latencies
of other loops are those of single reductions."""
_VECTOR_ENGINES = ("dve", "act", "any")


@dataclass(frozen=True, slots=True)
class Step:
    """Instances that run as one instruction: the first one, and the indices of all of them."""

    instruction: Instruction
    members: Sequence[int]


def compiled(trace: Trace) -> list[Step]:
    """The instructions that the machine executes, in program order."""
    instructions = trace.instructions
    if trace.language == 2:
        return [Step(instruction, (i,)) for i, instruction in enumerate(instructions)]
    kept = _used(trace)
    merged: dict[int, list[int]] = {}
    absorbed: set[int] = set()
    short, long = _vector_loops(trace)
    for group in short:
        for column in zip(*group, strict=True):
            merged[column[0]] = list(column)
            absorbed.update(column[1:])
    for bodies in long:
        for first in range(0, len(bodies), REDUCTIONS):
            last = [body[-1] for body in bodies[first : first + REDUCTIONS]]
            # It runs after the instructions whose results the iterations reduce.
            merged[last[-1]] = last
            absorbed.update(last[:-1])
    steps = (
        Step(instruction, merged.get(i, (i,)))
        for i, instruction in enumerate(instructions)
        if i not in absorbed
    )
    return [step for step in steps if any(kept[i] for i in step.members)]


def _used(trace: Trace) -> list[bool]:
    """The instructions whose result reaches HBM or stays in the accumulator of ACT."""
    kept = [False] * len(trace.instructions)
    wanted: set[int] = set()
    for i in range(len(kept) - 1, -1, -1):
        instruction = trace.instructions[i]
        if instruction.attributes.get("reduce_command", "idle") == "idle":
            for access in instruction.writes:
                if access.tensor.id in wanted or access.tensor.memory == "hbm":
                    break
            else:
                continue
        kept[i] = True
        for access in instruction.reads:
            wanted.add(access.tensor.id)
    return kept


def _vector_loops(trace: Trace) -> tuple[list[list[range]], list[list[range]]]:
    """Iterations that run as one, as lists of their instruction ranges, all of the same length.

    Also the iterations of each longer loop of which several reductions run at a time.
    """
    parents = {loop.parent.id for loop in trace.loops if loop.parent is not None}
    groups: list[list[range]] = []
    long: list[list[range]] = []
    waiting: list[tuple[Loop, list[range]]] = []
    for loop in trace.loops:
        if loop.id in parents or loop.kind != "affine":
            continue
        bodies = list(loop.iterations())
        if _mergeable(trace, bodies):
            waiting.append((loop, bodies))
        elif _reduces(trace, bodies):
            long.append(bodies)
    taken = 0
    while taken < len(waiting):
        loop, bodies = waiting[taken]
        count = _neighbours(trace, waiting, taken, bodies)
        groups.append([body for _, part in waiting[taken : taken + count] for body in part])
        taken += count
    return groups, long


def _neighbours(
    trace: Trace, waiting: Sequence[tuple[Loop, list[range]]], at: int, bodies: Sequence[range]
) -> int:
    """Number of iterations of the next outer loop, from number `at` on, that are merged too."""
    loop = waiting[at][0]
    outer = loop.parent
    if outer is None or outer.kind != "affine":
        return 1
    width = loop.trips * _widest(trace, bodies[0])
    most = max(d for d in range(1, outer.trips + 1) if outer.trips % d == 0 and d * width <= WIDEST)
    iterations = list(outer.iterations())
    count = 1
    while count < most and at + count < len(waiting):
        other, parts = waiting[at + count]
        if other.parent is not outer or not _alike(trace, (bodies[0], parts[0])):
            return 1
        count += 1
    alone = all(
        any(part.start == i.start and parts[-1].stop == i.stop for i in iterations)
        for _, parts in waiting[at : at + count]
        for part in parts[:1]
    )
    together = [body for _, parts in waiting[at : at + count] for body in parts]
    return count if alone and count == most and _evenly(trace, together) else 1


def _mergeable(trace: Trace, bodies: Sequence[range]) -> bool:
    """Whether the iterations can become one: they execute the same instructions, on engines that
    accept any number of elements."""
    if len(bodies) < 2 or not _on_vector_engines(trace, bodies[0]):
        return False
    fits = len(bodies) * _widest(trace, bodies[0]) <= WIDEST
    return fits and _alike(trace, bodies) and _evenly(trace, bodies)


def _reduces(trace: Trace, bodies: Sequence[range]) -> bool:
    """Whether each iteration of a longer loop ends with a reduction, and PSUM is accessed."""
    if not bodies or len(bodies) % REDUCTIONS or not _on_vector_engines(trace, bodies[0]):
        return False
    body = [trace.instructions[i] for i in bodies[0]]
    in_psum = any(a.tensor.memory == "psum" for i in body for a in (*i.reads, *i.writes))
    wide = REDUCTIONS * _widest(trace, bodies[0]) > WIDEST
    if body[-1].opcode != "tensor_reduce" or not in_psum or wide:
        return False
    return _alike(trace, bodies) and _evenly(trace, bodies, last=True)


def _on_vector_engines(trace: Trace, body: range) -> bool:
    engines = {trace.instructions[i].engine for i in body}
    return bool(engines) and engines <= set(_VECTOR_ENGINES)


def _alike(trace: Trace, bodies: Sequence[range]) -> bool:
    """Whether all bodies have the same instructions on regions of the same shape, in the same
    order."""
    if any(len(body) != len(bodies[0]) for body in bodies):
        return False
    for column in zip(*bodies, strict=True):
        first = _work(trace.instructions[column[0]])
        if any(_work(trace.instructions[i]) != first for i in column[1:]):
            return False
    return True


def _evenly(trace: Trace, bodies: Sequence[range], *, last: bool = False) -> bool:
    """Whether every operand advances in one tensor by equal steps, or is a separate tile of each
    body.

    This is checked for all instructions of the bodies, or for their last ones.
    """
    for column in list(zip(*bodies, strict=True))[-1 if last else 0 :]:
        found = [trace.instructions[i] for i in column]
        for operands in zip(*[(*f.reads, *f.writes) for f in found], strict=True):
            if len({_home(a, body) for a, body in zip(operands, bodies, strict=True)}) > 1:
                return False
            if patterns([a.offset for a in operands]) > 1:
                return False
    return True


def _home(access: Access, body: range) -> tuple[int, ...]:
    """The tensor of an operand, or its place in the source if the tile exists in one body only."""
    tensor = access.tensor
    if body.start <= tensor.first and tensor.last < body.stop:
        return access.start_partition, tensor.line, tensor.column
    return access.start_partition, tensor.id


def _work(instruction: Instruction) -> tuple[object, ...]:
    """The operation of an instruction, without its operands' places."""
    return (
        instruction.opcode,
        instruction.engine,
        instruction.attributes,
        [_region(access) for access in instruction.reads],
        [_region(access) for access in instruction.writes],
    )


def _region(access: Access) -> tuple[object, ...]:
    tensor = access.tensor
    return tensor.memory, tensor.dtype, access.partitions, access.pattern.dims


def _widest(trace: Trace, body: range) -> int:
    return max(
        max(a.elements for a in (*trace.instructions[i].reads, *trace.instructions[i].writes))
        for i in body
    )
