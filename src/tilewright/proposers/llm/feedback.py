"""Describes measurements and failures in words, for prompts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilewright.core.records import Failed, Measured, Trial

LONGEST_ATTEMPT = 160
"""Number of characters of an earlier attempt's failure that are shown."""

LONGEST_QUOTE = 80
"""Number of characters of a line that targets quote."""

CONTEXT_LINES = 2
"""Number of source lines that are shown before and after the line of a failure."""

_NAMED_LINE = re.compile(r"\bline (\d+)")
"""How targets name a line of the kernel."""
PLACE = r"^\S+?(?::\d+(?::\d+)?|\(\d+\)): "
"""How messages begin that name a line: `kernel.c:3:5: `, or `kernel.cu(3): ` from nvcc."""
ERROR = re.compile(rf"{PLACE}(?:fatal )?error\b", re.MULTILINE)
"""How compilers begin an error message, with its place."""
_ENDS_ERROR = re.compile(
    rf"^\S+: In function .*$|{PLACE}(?:(?:fatal )?error|warning)\b.*$"
    r"|^\d+ errors? (?:generated\.|detected\b.*)$",
    re.MULTILINE,
)
"""The end of the notes on an error: the next message, or the number of errors."""

_STAGES = {
    "build": "It does not compile.",
    "check": "It compiles, but fails its check.",
    "measure": "It passes its checks, but fails when it is measured.",
}


def describe_latency(trial: Trial, notes: Sequence[str] = ()) -> str:
    """Latency, utilisation and the target's feedback, or if there is no feedback, counts and
    causes.

    `notes` are added unless the feedback already contains them.
    """
    outcome = trial.outcome
    if isinstance(outcome, Failed):
        return "It has not been measured."
    lines = [
        f"- latency: {outcome.latency:,.0f} {outcome.unit}",
        f"- utilisation: {outcome.utilization:.1%} of the peak",
    ]
    if outcome.feedback:
        told = dict.fromkeys((*outcome.feedback.splitlines(), *notes))
        return "\n".join([*lines, *map(_as_item, told)])
    lines += [f"- {in_words(name)}: {value:,.0f}" for name, value in outcome.details.items()]
    causes = _causes(outcome)
    if causes:
        name, share = causes[0]
        lines.append(f"- most time goes to: {in_words(name)} ({share:.0%})")
        shares = ", ".join(f"{in_words(name)} {share:.0%}" for name, share in causes)
        lines.append(f"- shares of the latency, which may overlap: {shares}")
    lines += [f"- {note}" for note in notes]
    return "\n".join(lines)


def _as_item(line: str) -> str:
    """A line of feedback as an item of a list. Indented lines are items below the line before."""
    text = line.lstrip()
    return f"{line.removesuffix(text)}- {text}"


def describe_goal(trial: Trial, stop_within: float) -> str:
    """The latency at which the search ends, `stop_within` above the bound, and what the bound
    means; empty if there is none.
    """
    outcome = trial.outcome
    if not stop_within or not isinstance(outcome, Measured) or outcome.bound is None:
        return ""
    latency = f"{outcome.bound * (1 + stop_within):,.0f} {outcome.unit}"
    return (
        f"{latency}, which is {100 * stop_within:.3g} % above the bound of {outcome.bound:,.0f} "
        f"{outcome.unit}. Even the fastest kernel may need more than this bound, which does not "
        "include the time that a kernel takes to start and to end, so one change need not reach it"
    )


def describe_failure(trial: Trial) -> str:
    """Stage, kind, log and the source lines around the failure."""
    failed = trial.outcome
    assert isinstance(failed, Failed), "only failures are described"
    parts = [f"{_STAGES[failed.stage]} ({failed.kind_in_words})", first_error(failed)]
    if failed.line is not None:
        parts.append(_excerpt(trial.candidate.source, failed.line))
    return "\n\n".join(parts)


def first_error(failed: Failed) -> str:
    """The log, or for a compiler's log only the first error with its notes, because the other
    errors are mostly consequences.
    """
    log = failed.log.strip()
    if failed.kind != "compile_error":
        return log
    errors = [found.start() for found in ERROR.finditer(log)]
    if not errors:
        return log
    end = _ENDS_ERROR.search(log, errors[0] + 1)
    first = log[errors[0] : end.start() if end else None].strip()
    if len(errors) == 1:
        return first
    more = len(errors) - 1
    return f"{first}\n\n({more} more error{'s' * (more > 1)} left out: correct this one first.)"


def _excerpt(source: str, line: int) -> str:
    lines = source.splitlines()
    first = max(1, line - CONTEXT_LINES)
    shown = [
        f"{'->' if number == line else '  '} {number:4d} | {text}"
        for number, text in enumerate(lines, 1)
        if first <= number <= line + CONTEXT_LINES
    ]
    return f"Line {line}:\n\n" + "\n".join(shown) if shown else f"Line {line}."


def with_lines_marked(source: str, told: str, comment: str) -> str:
    """The kernel's source, with a comment at the end of each line that the feedback `told` mentions
    by its number.
    """
    named = {int(number) for number in _NAMED_LINE.findall(told)}
    return "\n".join(
        f"{text}  {comment} line {number}" if number in named else text
        for number, text in enumerate(source.splitlines(), 1)
    )


def lines_named(source: str, told: str) -> list[str]:
    """The kernel's lines that `told` (a measurement or a plan) mentions by number without quoting
    them, each with its number.
    """
    texts = dict(enumerate(map(str.strip, source.splitlines()), 1))
    named = sorted({int(number) for number in _NAMED_LINE.findall(told)} & texts.keys())
    return [f"line {n}: `{texts[n]}`" for n in named if f"`{texts[n][:LONGEST_QUOTE]}`" not in told]


def shortened_line(text: str, longest: int = LONGEST_ATTEMPT) -> str:
    """The text in one line of at most `longest` characters."""
    text = " ".join(text.split())
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _causes(outcome: Measured) -> list[tuple[str, float]]:
    """Causes and their share of the latency, largest first; below half a percent left out."""
    shares = [(name, value / outcome.latency) for name, value in outcome.breakdown.items()]
    return sorted((c for c in shares if c[1] >= 0.005), key=lambda c: -c[1])


def in_words(name: str) -> str:
    """The name of a cause or of a count in words."""
    return name.replace("_", " ")
