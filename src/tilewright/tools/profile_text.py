"""The profile of a kernel as text, with the most important part first, because long answers are
shortened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tilewright.core.text import counted
from tilewright.tools.formatting import block, number, phrase, words
from tilewright.tools.records import Profiled, ProfiledGap, ProfiledLine, ProfiledPhase

TOLD_SHARE = 2e-4
"""Share of the latency below which a cause at a source line is left out."""
MOST_GAPS = 3
"""Maximum number of periods without work that are listed for one cause at one line."""
MOST_GIST_CAUSES = 4
"""Number of causes that later turns show of an earlier profile."""


def profile_text(answer: Profiled) -> list[str]:
    """Causes, counters, phases and notes of a kernel, then its source lines."""
    lines, without = _telling(answer)
    left_out = answer.lines_left_out + without
    return [
        f"kernel {answer.candidate}: {number(answer.latency)} {answer.quantity} {answer.unit}",
        *_causes(answer),
        *block("counters", _pairs(answer.counters)),
        *block(f"phases, {answer.unit} by cause", _by_phase(answer.phases)),
        *block(f"longest times without work, in {answer.unit}", _gaps(answer.gaps)),
        *block("notes", answer.notes.splitlines()),
        *block("by source line", lines),
        f"  and {counted(left_out, 'line')} with less" if left_out else "",
    ]


def profile_gist(answer: Profiled) -> str:
    """A profile in one line: the latency and its largest causes."""
    own = {n: time for n, time in answer.causes.items() if n in (answer.exclusive or answer.causes)}
    most = ", ".join(
        f"{words(n)} {number(time)}" for n, time in list(own.items())[:MOST_GIST_CAUSES]
    )
    return f"kernel {answer.candidate}: {number(answer.latency)} {answer.unit} ({most})"


def _telling(answer: Profiled) -> tuple[list[str], int]:
    """The source lines with relevant costs, in order, and the number of other lines."""
    least = TOLD_SHARE * answer.latency
    shown = []
    for line in answer.lines:
        spent = {n: c for n, c in line.counts.items() if n not in answer.causes or c >= least}
        if spent.keys() - {"instructions"} or not answer.causes:
            shown.append(_line(line, spent))
    return shown, len(answer.lines) - len(shown)


def _line(line: ProfiledLine, counts: Mapping[str, float]) -> str:
    return f"{line.line}: {phrase(counts)} | {line.text}"


def _causes(answer: Profiled) -> list[str]:
    """The causes that add up to the latency, followed by those that overlap with them."""
    if not answer.exclusive:
        return block(f"causes in {answer.unit}, which may overlap", _pairs(answer.causes))
    spent = {name: time for name, time in answer.causes.items() if time}
    alone = {name: time for name, time in spent.items() if name in answer.exclusive}
    others = {name: time for name, time in spent.items() if name not in answer.exclusive}
    return [
        *block(f"causes in {answer.unit}, which add up to the latency", _pairs(alone)),
        *block(f"causes in {answer.unit} that overlap with these", _pairs(others)),
    ]


def _by_phase(phases: Sequence[ProfiledPhase]) -> Iterable[str]:
    for phase in phases:
        causes = phrase(phase.causes) or "nothing"
        yield f"{phase.when}: {number(sum(phase.causes.values()))} ({causes})"


def _gaps(gaps: Sequence[ProfiledGap]) -> Iterable[str]:
    """The gaps by cause and line, the longest first, each with the beginnings of its longest
    ones.
    """
    alike: dict[tuple[str, int | None], list[ProfiledGap]] = {}
    for gap in gaps:
        alike.setdefault((gap.cause, gap.line), []).append(gap)
    for (cause, line), found in sorted(
        alike.items(), key=lambda item: -max(gap.length for gap in item[1])
    ):
        where = f" at line {line}: {found[0].text}" if line else ""
        longest = sorted(found, key=lambda gap: -gap.length)[:MOST_GAPS]
        shown = ", ".join(f"{number(g.length)} from {number(g.start)} on" for g in longest)
        more = f" and {len(found) - len(longest)} more" if len(found) > len(longest) else ""
        yield f"{words(cause)}: {shown}{more}{where}"


def _pairs(counts: Mapping[str, float]) -> Iterator[str]:
    return (f"{words(name)}: {number(count)}" for name, count in counts.items())
