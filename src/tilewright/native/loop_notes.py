"""What a compiler made of the innermost loops, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.core.compiled_code import CodeLoop

MOST_NOTES = 6
"""Loops that are told of: those in most others, then those with most instructions."""


def loop_notes(loops: Sequence[CodeLoop], reasons: Mapping[int, str]) -> tuple[str, ...]:
    """A line for each innermost loop; of several loops from one source line the widest alone.

    A compiler makes several of one: of vectors, of what is left of them, for arrays that overlap.
    """
    chosen: dict[int, CodeLoop] = {}
    for loop in loops:
        if loop.innermost and loop.line is not None:
            other = chosen.get(loop.line)
            if other is None or _weight(loop) > _weight(other):
                chosen[loop.line] = loop
    most = sorted(chosen.values(), key=lambda loop: (-loop.depth, -loop.count))[:MOST_NOTES]
    return tuple(_note(loop, reasons) for loop in sorted(most, key=lambda loop: loop.line or 0))


def _weight(loop: CodeLoop) -> tuple[int, int]:
    return loop.vector_bytes, loop.count


def _note(loop: CodeLoop, reasons: Mapping[int, str]) -> str:
    how = f"{loop.vector_bytes}-byte vectors" if loop.vector_bytes else "scalar"
    up_to = "" if loop.straight else "up to "
    parts = [f"compiled loop at line {loop.line}: {how}, {up_to}{loop.count} instructions"]
    vectors = loop.instructions.get("vector arithmetic", 0)
    if vectors:
        parts.append(f"{vectors} of them vector arithmetic")
    if loop.instructions.get("calls"):
        parts.append(f"{loop.instructions['calls']} calls")
    spills = loop.spill_loads + loop.spill_stores
    if spills:
        parts.append(f"{spills} spills to the stack")
    reason = reasons.get(loop.line or 0, "")
    if reason and not loop.vector_bytes:
        parts.append(f"not vectorised by gcc: {reason}")
    return ", ".join(parts)
