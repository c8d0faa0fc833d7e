"""Answers in words and columns, as people and models read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewright.tools.assembly import FETCHED_BYTES
from tilewright.tools.records import (
    Answer,
    Assembly,
    Attempt,
    Checked,
    Compared,
    Difference,
    Evaluated,
    Facts,
    LoopCode,
    Profiled,
    ProfiledLine,
    ProfiledPhase,
    Refused,
    Rewrites,
    Rewritten,
    Submitted,
    Tried,
    answer_json,
)

MOST_CAUSES = 6
"""Causes of a difference that are told of: the largest."""


def answer_text(answer: Answer) -> str:
    """The answer as plain text; ids, numbers and units are those of its record."""
    match answer:
        case Refused():
            return f"refused: {answer.reason}"
        case Checked():
            return _checked(answer)
        case Evaluated():
            return _evaluated(answer)
        case Submitted():
            return f"submitted: {_evaluated(answer.kernel)}"
        case Compared():
            return _compared(answer)
        case Profiled():
            return _profiled(answer)
        case Assembly():
            return _assembly(answer)
        case Facts():
            return _facts(answer)
        case Tried():
            return _tried(answer)
        case Rewrites():
            return _rewrites(answer)
        case Rewritten():
            return _lines(f"kernel {answer.candidate}", *answer.done, answer.source.rstrip())


def said(answer: Answer) -> dict[str, Any]:
    """The answer as it travels: as text, as JSON, and whether it is a refusal."""
    refused = isinstance(answer, Refused)
    return {"text": answer_text(answer), "answer": answer_json(answer), "refused": refused}


def _checked(answer: Checked) -> str:
    if answer.builds:
        return f"kernel {answer.candidate} builds"
    place = f" at line {answer.line}" if answer.line else ""
    kind = _words(answer.kind)
    return _lines(f"kernel {answer.candidate} does not build: {kind}{place}", answer.error)


def _evaluated(answer: Evaluated) -> str:
    head = f"kernel {answer.candidate} (trial {answer.trial})"
    head += ", known before" if answer.known else ""
    left = _left(answer.left)
    if answer.latency is None:
        place = f" at line {answer.line}" if answer.line else ""
        failed = f"{head}: {_words(answer.verdict)} ({answer.stage}{place})"
        return _lines(failed, answer.error, left)
    used = f", utilisation {answer.utilization:.1%}" if answer.utilization is not None else ""
    bound = f", bound {_number(answer.bound)}" if answer.bound is not None else ""
    time = f"{_number(answer.latency)} {answer.quantity} {answer.unit}"
    return _lines(
        f"{head}: correct, {time}{used}{bound}",
        _difference("parent", answer.to_parent),
        _difference("best", answer.to_best),
        left,
    )


def _difference(name: str, found: Difference | None) -> str:
    if found is None:
        return ""
    causes = [f"{_words(n)} {c:+,.0f}" for n, c in list(found.causes.items())[:MOST_CAUSES]]
    where = f"; {', '.join(causes)}" if causes else ""
    return f"beside the {name} {found.other}: {found.latency:+,.0f} ({found.share:+.2%}){where}"


def _compared(answer: Compared) -> str:
    """One row a kernel, one column a cause that changed in any."""
    causes: dict[str, float] = {}
    for kernel in answer.kernels:
        for name, change in (kernel.to_parent.causes if kernel.to_parent else {}).items():
            causes[name] = max(causes.get(name, 0.0), abs(change))
    told = sorted(causes, key=lambda name: -causes[name])[:MOST_CAUSES]
    rows = [["kernel", "trial", "verdict", "latency", "to parent", *map(_words, told)]]
    for kernel in answer.kernels:
        beside = kernel.to_parent
        changes = [f"{beside.causes.get(n, 0.0):+,.0f}" if beside else "-" for n in told]
        rows.append(
            [
                kernel.candidate,
                str(kernel.trial),
                _words(kernel.verdict),
                _number(kernel.latency),
                f"{beside.latency:+,.0f} ({beside.share:+.2%})" if beside else "-",
                *changes,
            ]
        )
    errors = (f"{k.candidate}: {k.error}" for k in answer.kernels if k.error)
    left = _left(answer.kernels[-1].left) if answer.kernels else ""
    return _lines(f"beside the parent {answer.parent}:", *_table(rows), *errors, left)


def _left(evaluations: int | None) -> str:
    return f"{evaluations} evaluations left" if evaluations is not None else ""


def _profiled(answer: Profiled) -> str:
    time = f"{_number(answer.latency)} {answer.quantity} {answer.unit}"
    return _lines(
        f"kernel {answer.candidate}: {time}",
        *_causes(answer),
        *_block("counters", _pairs(answer.counters)),
        *_block(f"phases, {answer.unit} by cause", _by_phase(answer.phases)),
        *_block("by source line", _by_line(answer.lines)),
        f"  and {answer.lines_left_out} lines with less" if answer.lines_left_out else "",
        *_block("notes", answer.notes.splitlines()),
    )


def _causes(answer: Profiled) -> list[str]:
    """Those that add up to the latency, then those that overlap with them."""
    if not answer.exclusive:
        return _block(f"causes in {answer.unit}, which may overlap", _pairs(answer.causes))
    spent = {name: time for name, time in answer.causes.items() if time}
    alone = {name: time for name, time in spent.items() if name in answer.exclusive}
    others = {name: time for name, time in spent.items() if name not in answer.exclusive}
    return [
        *_block(f"causes in {answer.unit}, which add up to the latency", _pairs(alone)),
        *_block(f"causes in {answer.unit} that overlap with these", _pairs(others)),
    ]


def _by_phase(phases: Sequence[ProfiledPhase]) -> Iterable[str]:
    for phase in phases:
        causes = ", ".join(f"{_words(n)} {_number(c)}" for n, c in phase.causes.items())
        yield f"{phase.when}: {_number(sum(phase.causes.values()))} ({causes or 'nothing'})"


def _by_line(lines: Sequence[ProfiledLine]) -> Iterable[str]:
    for line in lines:
        counts = ", ".join(f"{_words(n)} {_number(c)}" for n, c in line.counts.items())
        yield f"{line.line}: {counts} | {line.text}"


def _assembly(answer: Assembly) -> str:
    size = f"{answer.instructions:,} instructions, {answer.code_bytes:,} bytes"
    listing = f"{answer.title}, by address and source line (* begins {FETCHED_BYTES} bytes)"
    rest = f"  ... {answer.left_out:,} instructions more" if answer.left_out else ""
    # Beside a listing, only its loop: the others are told where nothing is listed.
    shown = [loop for loop in answer.loops if not answer.title or answer.listed == loop.loop]
    return _lines(
        f"kernel {answer.candidate}: {answer.architecture}, {size}, {len(answer.loops)} loops",
        *_block("loops, with the instructions of one iteration", map(_loop, shown)),
        *_block("notes", () if answer.title else answer.notes),
        *_block(listing, answer.listing),
        rest,
    )


def _loop(loop: LoopCode) -> str:
    """Loops inside others are indented; what is zero is left out."""
    place = f"line {loop.line}" if loop.line is not None else "no line"
    classes = ", ".join(f"{count} {kind}" for kind, count in loop.instructions.items())
    spills = f"{loop.spill_loads} loads and {loop.spill_stores} stores of spills"
    parts = [
        f"{'' if loop.straight else 'up to '}{loop.count} instructions ({classes})",
        f"{loop.reads} of others than loads read memory" if loop.reads else "",
        spills if loop.spill_loads or loop.spill_stores else "",
        f"{loop.extensions} only extend" if loop.extensions else "",
        f"{loop.vector_bytes}-byte vectors" if loop.vector_bytes else "",
        f"{loop.per_command:.3g} per accelerator command" if loop.per_command else "",
        f"{loop.code_bytes} bytes",
    ]
    said = "; ".join(filter(None, parts))
    return f"{'  ' * (loop.depth - 1)}{loop.loop}. {place}: {said} | {loop.text}"


def _facts(answer: Facts) -> str:
    facts = [
        f"{fact.name}: {fact.value}{', ' if fact.meaning else ''}{fact.meaning} ({fact.source})"
        for fact in answer.facts
    ]
    return _lines(
        f"target {answer.target}",
        *facts,
        *_block("costs", answer.costs.splitlines()),
        *_block("rules", answer.rules.splitlines()),
    )


def _tried(answer: Tried) -> str:
    if not answer.attempts:
        return f"nothing was made from kernel {answer.candidate} yet"
    earlier = f"{answer.earlier} earlier ones are left out" if answer.earlier else ""
    rows = [attempt_text(attempt) for attempt in answer.attempts]
    return _lines(f"made from kernel {answer.candidate}:", *rows, earlier)


def attempt_text(attempt: Attempt) -> str:
    """One earlier attempt in one line."""
    end = _words(attempt.verdict)
    if attempt.latency is not None:
        share = f" ({attempt.share:+.2%})" if attempt.share is not None else ""
        end = f"{_number(attempt.latency)}{share}"
    what = ": ".join(filter(None, (attempt.option, attempt.what)))
    return f"{attempt.candidate} (trial {attempt.trial}, {attempt.author}) {end}; {what}"


def _rewrites(answer: Rewrites) -> str:
    if not answer.rewrites:
        return _lines(
            f"no rewrite applies to kernel {answer.candidate}",
            *_block("not understood", answer.left_alone),
        )
    rows = []
    for found in answer.rewrites:
        time = f" (estimated {100 * found.time:.0f} % of the time now)" if found.time else ""
        rows.append(f"{found.step}{time}: {found.what}")
    return _lines(
        f"rewrites of kernel {answer.candidate}:",
        *rows,
        *_block("not understood", answer.left_alone),
    )


def _block(title: str, lines: Iterable[str]) -> list[str]:
    """Indented lines below their title; nothing where there are none."""
    found = [f"  {line}" for line in lines if line.strip()]
    return [f"{title}:", *found] if found else []


def _pairs(counts: Mapping[str, float]) -> list[str]:
    return [f"{_words(name)}: {_number(count)}" for name, count in counts.items()]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _lines(*lines: str) -> str:
    """Those that say something."""
    return "\n".join(line for line in lines if line)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.4g}"


def _words(name: str) -> str:
    return name.replace("_", " ")
