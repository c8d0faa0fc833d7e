"""Describes the innermost loops in a compiler's output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.core.compiled_code import CodeLoop
from tilewright.native.instruction_rates import InstructionRates

HEAD = "Innermost loops as compiled, with the instructions of one iteration by source line"
CALLS = (
    "A loop that calls functions of math.h computes one element at a time, unless vector "
    "arithmetic replaces the calls (`vector-functions`)."
)
"""What helps if a loop contains calls. Prompts then offer the option in backquotes."""
MOST_TOLD = 6
"""Number of loops that are described: the most deeply nested ones, then those with the most
instructions.
"""


def loop_notes(
    loops: Sequence[CodeLoop], reasons: Mapping[int, str], rates: InstructionRates | None = None
) -> tuple[str, ...]:
    """One line on the innermost loops, the most deeply nested ones first. Of several loops from one
    source line, only the one with the widest vectors is described. With the `rates` of
    instructions, the line says how many cycles an iteration takes at least. A second line says what
    helps if a loop contains calls.

    A compiler generates several loops from one: with vectors, for the remaining elements, and for
    overlapping arrays. `reasons` say why GCC did not vectorise the loop at a line.
    """
    chosen: dict[int, CodeLoop] = {}
    for loop in loops:
        if loop.innermost and loop.line is not None:
            other = chosen.get(loop.line)
            if other is None or _weight(loop) > _weight(other):
                chosen[loop.line] = loop
    most = sorted(chosen.values(), key=lambda loop: (-loop.depth, -loop.count))[:MOST_TOLD]
    told = [_told(loop, reasons, rates) for loop in most]
    calls = any(loop.instructions.get("calls") for loop in most)
    return (f"{HEAD}: {'; '.join(told)}.", *[CALLS] * calls) if told else ()


def _weight(loop: CodeLoop) -> tuple[int, int]:
    return loop.vector_bytes, loop.count


def _told(loop: CodeLoop, reasons: Mapping[int, str], rates: InstructionRates | None) -> str:
    how = f"{loop.vector_bytes}-byte vectors" if loop.vector_bytes else "scalar"
    reason = "" if loop.vector_bytes else reasons.get(loop.line or 0, "")
    parts = ", ".join(f"{what} {n}" for what, n in _parts(loop).items() if n or what == "spills")
    return (
        f"line {loop.line}: {how}, {'' if loop.straight else 'up to '}{loop.count} instructions"
        + (f" ({parts})" if parts else "")
        + (_least(rates.least_cycles(loop)) if rates else "")
        + (f" (gcc did not vectorise the loop: {reason})" if reason else "")
    )


def _least(need: tuple[float, str] | None) -> str:
    return f", which take at least {need[0]:.0f} cycles because of the {need[1]}" if need else ""


def _parts(loop: CodeLoop) -> dict[str, int]:
    """The instructions by what they do, as far as this can limit the loop."""
    counted = loop.instructions.get
    spills = loop.spill_loads + loop.spill_stores
    others = {"calls": counted("calls", 0)}
    if not loop.vector_bytes:
        return others | ({"spills": spills} if spills else {})
    return {
        **loop.vector_work,
        "other vector arithmetic": counted("vector arithmetic", 0) - sum(loop.vector_work.values()),
        "shuffles and moves": counted("vector moves", 0),
        "loads": counted("loads", 0),
        "operands in memory": loop.reads,
        "stores": counted("stores", 0),
        **others,
        "spills": spills,
    }
