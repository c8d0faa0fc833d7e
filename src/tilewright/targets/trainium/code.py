"""The instructions of a kernel by loop and engine, as the tool `asm` shows them.

They come from the trace, so they are the instructions that the latency model schedules. They do not
include changes by a compiler: the AWS SDK may merge or split instructions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.core.compiled_code import CodeLine, CodeLoop, CompiledCode
from tilewright.targets.trainium.trace import Access, Instruction, Loop, Trace

ENGINES: Mapping[str, str] = {
    "pe": "tensor engine",
    "dve": "vector engine",
    "act": "scalar engine",
    "pool": "GpSimd engine",
    "dma": "DMA transfers",
    "any": "any engine",
}
MOST_LISTED = 20_000
"""Maximum number of instructions in a listing of a loop or of the whole kernel."""
_TOLD = ("k", "m", "n", "op", "op0", "op1", "reduce_op", "reduce_command", "accumulate")
"""Attributes that describe what an instruction computes."""


def instruction_code(trace: Trace, target: str) -> CompiledCode:
    """The loops of a traced kernel, each with one iteration, and the whole kernel in program order.

    An address is the position of an instruction in the trace.
    """
    found = _source_loops(trace)
    numbers = {key: number for number, key in enumerate(found, 1)}
    loops = tuple(_told(numbers[key], numbers, key, one, trace) for key, one in found.items())
    counted = Counter(ENGINES[one.engine] for one in trace.instructions)
    shares = ", ".join(f"{count:,} {name}" for name, count in counted.most_common())
    everything = range(min(len(trace.instructions), MOST_LISTED))
    return CompiledCode(
        f"traced instructions of {target}",
        0,
        len(trace.instructions),
        loops,
        (f"all: {shares}", *filter(None, (_note(loop, trace) for loop in loops))),
        _listed(trace, everything),
    )


Key = tuple[int, ...]
"""A loop of the source: its line, after those of the enclosing loops."""


@dataclass
class _SourceLoop:
    """All executions of one loop. The first one provides the iteration that is shown."""

    first: Loop
    lengths: set[int] = field(default_factory=set)


def _source_loops(trace: Trace) -> dict[Key, _SourceLoop]:
    """The loops in the order in which they are first entered. Loops without iterations are left
    out."""
    found: dict[Key, _SourceLoop] = {}
    for loop in trace.loops:
        if loop.starts:
            one = found.setdefault(_key(loop), _SourceLoop(loop))
            one.lengths.update(len(iteration) for iteration in loop.iterations())
    return found


def _key(loop: Loop | None) -> Key:
    lines: list[int] = []
    while loop is not None:
        lines.append(loop.line)
        loop = loop.parent
    return tuple(reversed(lines))


def _told(
    number: int, numbers: Mapping[Key, int], key: Key, found: _SourceLoop, trace: Trace
) -> CodeLoop:
    iteration = next(found.first.iterations())
    own = (trace.instructions[i] for i in iteration if trace.instructions[i].loop is found.first)
    counted = Counter(ENGINES[one.engine] for one in own)
    return CodeLoop(
        number=number,
        line=key[-1],
        depth=len(key),
        inside=numbers.get(key[:-1]),
        innermost=not any(other[:-1] == key for other in numbers),
        straight=len(found.lengths) == 1,
        code_bytes=0,
        instructions=dict(counted.most_common()),
        listing=_listed(trace, iteration[:MOST_LISTED]),
    )


def _note(loop: CodeLoop, trace: Trace) -> str:
    """A note on an innermost loop: the size of its smallest transfer and of its narrowest
    instruction."""
    if not loop.innermost:
        return ""
    made = [trace.instructions[one.address] for one in loop.listing]
    runs = [access.run_bytes for one in made if one.engine == "dma" for access in _hbm(one)]
    columns = [
        max(access.elements for access in (*one.reads, *one.writes))
        for one in made
        if one.engine != "dma" and one.writes
    ]
    said = []
    if runs:
        said.append(f"the smallest transfer reads or writes {min(runs):,} contiguous bytes at once")
    if columns:
        said.append(f"the smallest instruction works on {min(columns):,} columns")
    return f"loop {loop.number}: {'; '.join(said)}" if said else ""


def _hbm(one: Instruction) -> list[Access]:
    return [access for access in (*one.reads, *one.writes) if access.tensor.memory == "hbm"]


def _listed(trace: Trace, indices: Sequence[int]) -> tuple[CodeLine, ...]:
    return tuple(
        CodeLine(i, _text(trace.instructions[i]), trace.instructions[i].line) for i in indices
    )


def _text(one: Instruction) -> str:
    told = [f"{name}={one.attributes[name]}" for name in _TOLD if one.attributes.get(name)]
    to = ", ".join(map(_access, one.writes))
    of = ", ".join(map(_access, one.reads))
    return " ".join(filter(None, (one.engine, one.opcode, *told, to, f"<- {of}" if of else "")))


def _access(access: Access) -> str:
    tensor = access.tensor
    name = tensor.name or tensor.kind
    return f"{name}.{tensor.memory}[{access.partitions}x{access.elements}]"
