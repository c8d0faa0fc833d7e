"""Loops of machine code as records: counts of one iteration, source lines, listings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from tilewright.core.compiled_code import CodeLine, CodeLoop, CompiledCode
from tilewright.parts.machine_code.flow import Loop, find_loops
from tilewright.parts.machine_code.instructions import Instruction

MOST_INSTRUCTIONS = 100_000
"""Maximum number of instructions of a kernel that is analysed, because finding loops in more would
take long.
"""

Lines = Callable[[Sequence[int]], Sequence[int | None]]
"""The source lines of these addresses in the kernel; None for other code."""


class TooLargeError(Exception):
    """The code has too many instructions to be analysed."""


def summarized(
    architecture: str,
    code: Sequence[Instruction],
    entries: Iterable[int],
    lines: Lines,
) -> CompiledCode:
    """The loops of a kernel whose functions begin at `entries`."""
    if len(code) > MOST_INSTRUCTIONS:
        raise TooLargeError(
            f"the kernel's machine code has {len(code):,} instructions, too many to examine. Give "
            f"a kernel with at most {MOST_INSTRUCTIONS:,}."
        )
    at = lines([one.address for one in code])
    loops = find_loops(code, entries)
    real = [one for one in code if not one.padding]
    return CompiledCode(
        architecture,
        sum(one.size for one in real),
        len(real),
        tuple(_loop(number, loop, code, at) for number, loop in enumerate(loops, 1)),
        listing=tuple(
            CodeLine(one.address, one.text, line)
            for one, line in zip(code, at, strict=True)
            if not one.padding
        ),
    )


def _loop(
    number: int, loop: Loop, code: Sequence[Instruction], lines: Sequence[int | None]
) -> CodeLoop:
    own = [code[position] for block in loop.own for position in block]
    whole = [position for block in loop.blocks for position in block]
    counted = Counter(one.kind for one in own)
    widest = max((one.vector_bytes for one in own), default=0)
    of_vectors = [one for one in own if one.accessed_bytes == widest > 0]
    return CodeLoop(
        number=number,
        line=_line_of(loop, lines),
        depth=loop.depth,
        inside=None if loop.parent is None else loop.parent + 1,
        innermost=loop.innermost,
        straight=loop.straight,
        one_path=loop.one_path,
        code_bytes=sum(code[position].size for position in whole),
        instructions={str(kind): count for kind, count in counted.most_common()},
        vector_work=dict(Counter(one.work for one in own if one.work)),
        reads=sum(one.reads and one.kind not in ("loads", "commands") for one in own),
        spill_loads=sum(one.frame and one.reads for one in own),
        spill_stores=sum(one.frame and one.writes for one in own),
        extensions=sum(one.extends for one in own),
        vector_bytes=widest,
        vector_reads=sum(one.reads for one in of_vectors),
        vector_writes=sum(one.writes for one in of_vectors),
        listing=tuple(
            CodeLine(code[position].address, code[position].text, lines[position])
            for position in whole
        ),
    )


def _line_of(loop: Loop, lines: Sequence[int | None]) -> int | None:
    """The source line of a loop: that of its jump back, which compilers assign to the condition, or
    otherwise the first known one."""
    back = lines[loop.back]
    if back is not None:
        return back
    own = [line for block in loop.own for line in lines[block.start : block.stop]]
    return min((line for line in own if line is not None), default=None)
