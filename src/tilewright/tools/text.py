"""Answers as text, for people and models."""

from __future__ import annotations

from typing import Any

from tilewright.tools.assembly import FETCHED_BYTES
from tilewright.tools.formatting import block, lines, number, table, words
from tilewright.tools.profile_text import profile_text
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
    Refused,
    Rewrite,
    Rewrites,
    Rewritten,
    Shown,
    Submitted,
    Tried,
    answer_json,
)

MOST_CAUSES = 6
"""Number of causes of a difference that are shown, the largest ones."""
SLOWER = 1.0
"""Estimated share of the present time above which a rewrite is listed without its description."""


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
            return lines(*profile_text(answer))
        case Assembly():
            return _assembly(answer)
        case Facts():
            return _facts(answer)
        case Tried():
            return _tried(answer)
        case Rewrites():
            return _rewrites(answer)
        case Rewritten():
            return lines(f"kernel {answer.candidate}", *answer.done, answer.source.rstrip())
        case Shown():
            return lines(f"kernel {answer.candidate}", answer.source.rstrip())


def said(answer: Answer) -> dict[str, Any]:
    """The answer as text and as JSON, and whether it is a refusal."""
    refused = isinstance(answer, Refused)
    return {"text": answer_text(answer), "answer": answer_json(answer), "refused": refused}


def _checked(answer: Checked) -> str:
    if not answer.kind:
        return f"kernel {answer.candidate} builds"
    place = f" at line {answer.line}" if answer.line else ""
    found = "builds, but breaks a rule when it runs" if answer.builds else "does not build"
    return lines(f"kernel {answer.candidate} {found}: {words(answer.kind)}{place}", answer.error)


def _evaluated(answer: Evaluated) -> str:
    head = f"kernel {answer.candidate} (trial {answer.trial})"
    head += ", known before" if answer.known else ""
    left = _left(answer.left)
    if answer.latency is None:
        place = f" at line {answer.line}" if answer.line else ""
        failed = f"{head}: {words(answer.verdict)} ({answer.stage}{place})"
        return lines(failed, answer.error, left)
    used = f", utilisation {answer.utilization:.1%}" if answer.utilization is not None else ""
    bound = f", bound {number(answer.bound)}" if answer.bound is not None else ""
    time = f"{number(answer.latency)} {answer.quantity} {answer.unit}"
    noise = f" (noise of its samples {answer.noise:.1%})" if answer.noise else ""
    # The causes are compared with the best kernel, because the parent may be much older.
    return lines(
        f"{head}: correct, {time}{noise}{used}{bound}",
        _difference("parent", answer.to_parent, answer.noise, 0 if answer.to_best else MOST_CAUSES),
        _difference("best so far", answer.to_best, answer.noise),
        left,
    )


def _difference(
    name: str, found: Difference | None, noise: float = 0.0, most: int = MOST_CAUSES
) -> str:
    if found is None:
        return ""
    causes = [f"{words(n)} {c:+,.0f}" for n, c in list(found.causes.items())[:most]]
    where = f"; {', '.join(causes)}" if causes else ""
    return f"compared with the {name} {found.other}: {_change(found, noise)}{where}"


def _change(found: Difference, noise: float) -> str:
    """A difference in latency, and whether it is smaller than the noise of the samples."""
    within = ", within the noise" if abs(found.share) < noise else ""
    return f"{found.latency:+,.0f} ({found.share:+.2%}{within})"


def _compared(answer: Compared) -> str:
    """A table with one row per kernel and one column per cause that changed. Kernels are compared
    with the best kernel if it is known and differs from the parent.
    """
    causes: dict[str, float] = {}
    differences = [_difference_to_best(answer, kernel) for kernel in answer.kernels]
    for difference in differences:
        for name, change in (difference.causes if difference else {}).items():
            causes[name] = max(causes.get(name, 0.0), abs(change))
    told = sorted(causes, key=lambda name: -causes[name])[:MOST_CAUSES]
    to = "to best" if answer.best else "to parent"
    rows = [["kernel", "trial", "verdict", "latency", to, *map(words, told)]]
    for kernel, difference in zip(answer.kernels, differences, strict=True):
        changes = [f"{difference.causes.get(n, 0.0):+,.0f}" if difference else "-" for n in told]
        rows.append(
            [
                kernel.candidate,
                str(kernel.trial),
                words(kernel.verdict),
                number(kernel.latency),
                _change(difference, kernel.noise) if difference else "-",
                *changes,
            ]
        )
    errors = (f"{k.candidate}: {k.error}" for k in answer.kernels if k.error)
    left = _left(answer.kernels[-1].left) if answer.kernels else ""
    other = f"best so far {answer.best}" if answer.best else f"parent {answer.parent}"
    return lines(f"compared with the {other}:", *table(rows), *errors, left)


def _difference_to_best(answer: Compared, kernel: Evaluated) -> Difference | None:
    return kernel.to_best if answer.best else kernel.to_parent


def _left(evaluations: int | None) -> str:
    return f"{evaluations} evaluations left" if evaluations is not None else ""


def _assembly(answer: Assembly) -> str:
    size, order = f"{answer.instructions:,} instructions", "place in the trace and source line"
    if answer.code_bytes:
        size += f", {answer.code_bytes:,} bytes"
        order = f"address and source line (* begins {FETCHED_BYTES} bytes)"
    listing = f"{answer.title}, by {order}"
    rest = f"  ... {answer.left_out:,} more instructions" if answer.left_out else ""
    # With a listing, only its loop is shown. Without a listing, all loops are shown.
    shown = [loop for loop in answer.loops if not answer.title or answer.listed == loop.loop]
    return lines(
        f"kernel {answer.candidate}: {answer.architecture}, {size}, {len(answer.loops)} loops",
        *block("loops, with the instructions of one iteration", map(_loop, shown)),
        *block("notes", () if answer.title else answer.notes),
        *block(listing, answer.listing),
        rest,
    )


def _loop(loop: LoopCode) -> str:
    """One loop as text. Inner loops are indented, and counts of zero are left out."""
    place = f"line {loop.line}" if loop.line is not None else "no line"
    classes = ", ".join(f"{count} {kind}" for kind, count in loop.instructions.items())
    spills = f"{loop.spill_loads} loads and {loop.spill_stores} stores of spills"
    parts = [
        f"{'' if loop.straight else 'up to '}{loop.count} instructions"
        + (f" ({classes})" if classes else " of its own"),
        f"{loop.reads} instructions other than loads read memory" if loop.reads else "",
        spills if loop.spill_loads or loop.spill_stores else "",
        f"{loop.extensions} only extend" if loop.extensions else "",
        f"{loop.vector_bytes}-byte vectors" if loop.vector_bytes else "",
        f"{loop.per_command:.3g} per accelerator command" if loop.per_command else "",
        f"{loop.code_bytes} bytes" if loop.code_bytes else "",
    ]
    said = "; ".join(filter(None, parts))
    return f"{'  ' * (loop.depth - 1)}{loop.loop}. {place}: {said} | {loop.text}"


def _facts(answer: Facts) -> str:
    facts = [
        f"{fact.name}: {fact.value}{', ' if fact.meaning else ''}{fact.meaning} ({fact.source})"
        for fact in answer.facts
    ]
    return lines(
        f"target {answer.target}",
        *facts,
        *block("costs", answer.costs.splitlines()),
        *block("rules", answer.rules.splitlines()),
    )


def _tried(answer: Tried) -> str:
    earlier = f"{answer.earlier} earlier ones are left out" if answer.earlier else ""
    rows = [attempt_text(attempt) for attempt in answer.attempts]
    made = f"made from kernel {answer.candidate}:" if rows else ""
    siblings = [attempt_text(attempt) for attempt in answer.siblings]
    heading = f"other kernels made from the same kernel as {answer.candidate}:" if siblings else ""
    nothing = f"no kernel has been derived from kernel {answer.candidate} yet" if not rows else ""
    return lines(nothing, made, *rows, earlier, heading, *siblings)


def attempt_text(attempt: Attempt) -> str:
    """One earlier attempt in one line."""
    end = words(attempt.verdict)
    if attempt.latency is not None:
        share = f" ({attempt.share:+.2%})" if attempt.share is not None else ""
        end = f"{number(attempt.latency)}{share}"
    what = ": ".join(filter(None, (attempt.option, attempt.what)))
    return f"{attempt.candidate} (trial {attempt.trial}, {attempt.author}) {end}; {what}"


def _rewrites(answer: Rewrites) -> str:
    more = f"there may be more: {answer.incomplete}" if answer.incomplete else ""
    if not answer.rewrites:
        return lines(
            f"no rewrite applies to kernel {answer.candidate}",
            more,
            *block("not understood", answer.left_alone),
        )
    rows = [
        f"{found.step}{_estimate(found)}: {found.what}"
        for found in answer.rewrites
        if not found.time or found.time <= SLOWER
    ]
    slower = [found.step for found in answer.rewrites if found.time and found.time > SLOWER]
    named = f"estimated to be slower by themselves: {', '.join(slower)}" if slower else ""
    return lines(
        f"rewrites of kernel {answer.candidate}, those that are estimated to save most first:",
        *rows,
        named,
        more,
        *block("not understood", answer.left_alone),
    )


def _estimate(found: Rewrite) -> str:
    return f" (estimated {100 * found.time:.1f} % of the time now)" if found.time else ""
