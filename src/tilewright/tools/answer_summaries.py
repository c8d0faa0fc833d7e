"""Shortens an earlier answer of a tool to one line."""

from __future__ import annotations

from tilewright.tools.formatting import number, words
from tilewright.tools.profile_text import profile_gist
from tilewright.tools.records import (
    Answer,
    Assembly,
    Compared,
    Evaluated,
    LoopCode,
    Profiled,
    Tried,
)
from tilewright.tools.text import answer_text

LONGEST_GIST = 400
"""Maximum number of characters of an answer in later turns."""


def gist_of(answer: Answer) -> str:
    """The answer in one line, with the numbers that later turns may need again."""
    match answer:
        case Evaluated():
            text = f"kernel {_evaluated(answer)}"
        case Compared():
            text = "; ".join(map(_evaluated, answer.kernels))
        case Profiled():
            text = profile_gist(answer)
        case Assembly():
            text = _assembly(answer)
        case Tried():
            text = f"{len(answer.attempts)} made from kernel {answer.candidate}; ask again for them"
        case _:
            text = answer_text(answer).partition("\n")[0]
    return text if len(text) <= LONGEST_GIST else f"{text[:LONGEST_GIST]} ..."


def _evaluated(answer: Evaluated) -> str:
    if answer.latency is None:
        place = f" at line {answer.line}" if answer.line else ""
        return f"{answer.candidate} {words(answer.verdict)}{place}"
    difference = answer.to_best or answer.to_parent
    other = "best before" if answer.to_best else "parent"
    share = f" ({difference.share:+.2%} of the {other})" if difference is not None else ""
    return f"{answer.candidate} correct, {number(answer.latency)} {answer.unit}{share}"


def _assembly(answer: Assembly) -> str:
    """The innermost loops, those with the most instructions first."""
    size = f"{answer.instructions:,} instructions, {answer.code_bytes:,} bytes"
    inner = sorted((one for one in answer.loops if one.innermost), key=lambda one: -one.count)
    told = "; ".join(map(_loop, inner[:3]))
    return f"kernel {answer.candidate}: {size}" + (f"; {told}" if told else "")


def _loop(loop: LoopCode) -> str:
    spills = loop.spill_loads + loop.spill_stores
    text = f"loop {loop.loop} {loop.count} instructions an iteration"
    return f"{text}, {spills} spills" if spills else text
