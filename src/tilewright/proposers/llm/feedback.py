"""Describes measurements and failures in words, for prompts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from tilewright.core.records import Failed, History, Measured, Plan, Schedule, Trial
from tilewright.proposers.llm.open_numbers import describe_values, parameters_of, template_of

LONGEST_PLAN = 1500
"""Number of characters of an earlier run's plan that are shown."""

LONGEST_ATTEMPT = 160
"""Number of characters of an earlier attempt's failure that are shown."""

LONGEST_CHANGE = 400
"""Number of characters of the sentence that are shown in which an earlier attempt's plan says what
changes."""

TELLING_CHANGE = 0.1
"""Minimum change of a cause that is shown for a slower attempt, as a share of the attempt's
additional latency.
"""

MOST_CHANGES = 2
"""Number of causes whose changes are shown for a slower attempt."""

MOST_ATTEMPTS = 8
"""Number of earlier attempts on one kernel that are shown, the latest ones."""

MOST_OTHERS = 4
"""Number of other kernels of the run that are shown, the fastest ones."""

LONGEST_QUOTE = 80
"""Number of characters of a line that targets quote."""

CONTEXT_LINES = 2
"""Number of source lines that are shown before and after the line of a failure."""

_NAMED_LINE = re.compile(r"\bline (\d+)")
"""How targets name a line of the kernel."""
_PLACE = r"^\S+?(?::\d+(?::\d+)?|\(\d+\)): "
_ERROR = re.compile(rf"{_PLACE}(?:fatal )?error\b", re.MULTILINE)
"""How compilers begin an error message, with its place; nvcc writes `kernel.cu(3): error`."""
_ENDS_ERROR = re.compile(
    rf"^\S+: In function .*$|{_PLACE}(?:(?:fatal )?error|warning)\b.*$"
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
        return "\n".join([*lines, *(f"- {line}" for line in told)])
    lines += [f"- {_words(name)}: {value:,.0f}" for name, value in outcome.details.items()]
    causes = _causes(outcome)
    if causes:
        name, share = causes[0]
        lines.append(f"- most time goes to: {_words(name)} ({share:.0%})")
        shares = ", ".join(f"{_words(name)} {share:.0%}" for name, share in causes)
        lines.append(f"- shares of the latency, which may overlap: {shares}")
    lines += [f"- {note}" for note in notes]
    return "\n".join(lines)


def describe_goal(trial: Trial, stop_within: float) -> str:
    """The latency at which the search ends, `stop_within` above the bound, and what the bound
    means; empty if there is none.
    """
    outcome = trial.outcome
    if not stop_within or not isinstance(outcome, Measured) or outcome.bound is None:
        return ""
    latency = f"{outcome.bound * (1 + stop_within):,.0f} {outcome.unit}"
    return (
        f"{latency}, which is {100 * stop_within:.3g} % above {outcome.bound:,.0f} {outcome.unit}, "
        "the time that certainly no kernel can beat. Even the fastest kernel may need more than "
        "this, so it is no goal for one change"
    )


def describe_ancestors(trial: Trial, history: History) -> list[str]:
    """The steps that led from the starting kernel to `trial`: the option, what changed, and the
    latency before and after.
    """
    steps = []
    for before, after in pairwise(history.lineage(trial.candidate.id)):
        plan = after.candidate.plan
        what = f"`{plan.option}` ({gist(plan)})" if plan else "a change"
        steps.append(f"{what}: {_latency(before)} -> {_latency(after)}")
    return steps


def describe_tried(trial: Trial, history: History, causes: Sequence[str] = ()) -> list[str]:
    """The fastest kernels that were derived from `trial`, and the latest other attempts on it.

    Each attempt has the option, the plan in one line, and the outcome. A slower kernel also has the
    changes of its largest `causes` (all causes if none are given). If a candidate failed and was
    corrected, only the correction is listed. Instances of a template are summarised in one line.
    """
    children = [t for t in history if t.candidate.parent_id == trial.candidate.id]
    corrected = {str(parameters_of(child).get("repairs", "")) for child in children}
    faster, attempts = list[tuple[float, str]](), list[str]()
    for child in children:
        plan = child.candidate.plan
        if plan is None or plan.is_instance or child.candidate.id in corrected:
            continue
        text = f"`{plan.option}` ({gist(plan)}): {_attempt(child, trial, causes)}"
        latency = child.latency
        if latency is not None and latency < (trial.latency or 0.0):
            faster.append((latency, text))
        else:
            attempts.append(text)
    told = [text for _, text in sorted(faster)[:MOST_OTHERS]]
    told += list(dict.fromkeys(attempts))[-MOST_ATTEMPTS:]
    values = describe_values(trial, history)
    return [values, *told] if values else told


def describe_others(trial: Trial, history: History) -> list[str]:
    """The fastest kernels of the run that `trial` neither came from nor led to.

    Each kernel has the option, the plan in one line, and its latency relative to that of `trial`.
    For the instances of a template, only the fastest is listed, with the plan that introduced the
    template. None if `trial` was not measured.
    """
    before = trial.outcome
    if not isinstance(before, Measured):
        return []
    apart = {template_of(one) for one in history.lineage(trial.candidate.id)}
    fastest: dict[str, float] = {}
    for other in history:
        family, latency = template_of(other), other.latency
        if latency is None or family in apart or other.candidate.parent_id == trial.candidate.id:
            continue
        fastest[family] = min(latency, fastest.get(family, latency))
    lines = []
    for family, latency in sorted(fastest.items(), key=lambda found: found[1])[:MOST_OTHERS]:
        brought = history.get(family)
        plan = brought.candidate.plan if brought is not None else None
        what = f"`{plan.option}` ({gist(plan)})" if plan is not None else "a change"
        lines.append(f"{what}: {_compared(latency, before)}")
    return lines


def describe_schedule(schedule: Schedule) -> list[str]:
    """The plans of an earlier run, with the latency before and after each."""
    around = pairwise(schedule.latencies)
    return [
        f"`{plan.option}` ({before:,.0f} -> {after:,.0f} {schedule.unit}): {shortened(plan.text)}"
        for plan, (before, after) in zip(schedule.plans, around, strict=True)
    ]


def shortened(text: str) -> str:
    """The text in one paragraph of at most `LONGEST_PLAN` characters."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_PLAN else f"{text[:LONGEST_PLAN]} ..."


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
    errors = [found.start() for found in _ERROR.finditer(log)]
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


def gist(plan: Plan) -> str:
    """The first line of a plan, in which models are asked to say what changes."""
    lines = [line.strip() for line in plan.text.splitlines()]
    first = next((line for line in lines if line and line[0] != "#"), plan.text)
    return shortened_line(first, LONGEST_CHANGE)


def _attempt(child: Trial, parent: Trial, causes: Sequence[str]) -> str:
    """How an attempt ended."""
    outcome, before = child.outcome, parent.outcome
    assert isinstance(before, Measured), "what is expanded was measured"
    if isinstance(outcome, Measured):
        if outcome.latency < before.latency:
            return f"faster, {_compared(outcome.latency, before)}"
        how = "slower" if outcome.latency > before.latency else "as fast"
        changes = ", ".join(_changes(before, outcome, causes))
        return f"{how}, {_compared(outcome.latency, before)}" + (f": {changes}" if changes else "")
    if outcome.kind == "slower_than_limit" and outcome.bound is not None:
        return f"slower, takes at least {_compared(outcome.bound, before)}"
    reason = _ERROR.sub("", first_error(outcome)).strip(": \n").split("\n")[0]
    return f"{outcome.kind_in_words}: {shortened_line(reason)}"


def _compared(latency: float, before: Measured) -> str:
    return f"{latency:,.0f} {before.unit} ({latency / before.latency - 1:+.1%})"


def _changes(before: Measured, after: Measured, causes: Sequence[str]) -> list[str]:
    """The changes of those causes that changed most."""
    names = causes or sorted(before.breakdown.keys() | after.breakdown.keys())
    changed = {n: after.breakdown.get(n, 0.0) - before.breakdown.get(n, 0.0) for n in names}
    least = max(1.0, TELLING_CHANGE * (after.latency - before.latency))
    largest = sorted(changed.items(), key=lambda change: -abs(change[1]))[:MOST_CHANGES]
    return [f"{_words(name)} {by:+,.0f}" for name, by in largest if abs(by) >= least]


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


def _latency(trial: Trial) -> str:
    if isinstance(trial.outcome, Failed):
        return "not measured"
    return f"{trial.outcome.latency:,.0f} {trial.outcome.unit}"


def _words(name: str) -> str:
    return name.replace("_", " ")
