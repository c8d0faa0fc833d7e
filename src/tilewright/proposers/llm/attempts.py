"""Describes the other kernels of a run in words, for prompts: those that a kernel came from, the
attempts on it, and the fastest ones of other branches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from tilewright.core.records import Failed, History, Measured, Plan, Schedule, Trial
from tilewright.proposers.llm.feedback import ERROR, first_error, in_words, shortened_line
from tilewright.proposers.llm.open_numbers import describe_values, parameters_of, template_of

LONGEST_PLAN = 1500
"""Number of characters of an earlier run's plan that are shown."""

LONGEST_CHANGE = 400
"""Number of characters of the sentence that are shown in which an earlier attempt's plan says what
changes."""

TELLING_CHANGE = 0.1
"""Minimum change of a cause that is shown, as a share of the change of the latency."""

MOST_CHANGES = 3
"""Number of causes whose changes are shown for one kernel."""

MOST_ATTEMPTS = 8
"""Number of earlier attempts on one kernel that are shown, the latest ones."""

MOST_OTHERS = 4
"""Number of other kernels of the run that are shown, the fastest ones."""

LONGEST_NOTE = 240
"""Number of characters of a compiler's notes on another kernel that are shown."""

_OF_A_LINE = re.compile(r"\bline \d+: ")
"""The place of a note, which is a line of a kernel that the prompt does not show."""

Notes = Callable[[str], Sequence[str]]
"""Returns a compiler's notes on a kernel, given its source, each of them as one line."""


def describe_ancestors(trial: Trial, history: History, causes: Sequence[str] = ()) -> list[str]:
    """The steps that led from the starting kernel to `trial`: the option, what changed, the latency
    before and after, the latency that the plan expected, and the changes of the largest `causes`
    (all causes if none are given).
    """
    steps = []
    for before, after in pairwise(history.lineage(trial.candidate.id)):
        text = f"{_what(after.candidate.plan)}: {_latency(before)} -> {_latency(after)}"
        if isinstance(before.outcome, Measured) and isinstance(after.outcome, Measured):
            text += _expected(after, before.outcome) + _why(before.outcome, after.outcome, causes)
        steps.append(text)
    return steps


def describe_tried(
    trial: Trial, history: History, causes: Sequence[str] = (), notes: Notes | None = None
) -> list[str]:
    """The fastest kernels that were derived from `trial`, and the latest other attempts on it.

    Each attempt has the option, the plan in one line, the outcome, and what the plan expected. A
    measured kernel also has the changes of its largest `causes` (all causes if none are given). If
    no causes are counted, it has the compiler's `notes` instead, for which each listed kernel is
    compiled again. If a candidate failed and was corrected, only the correction is listed.
    Instances of a template are summarised in one line.
    """
    children = [t for t in history if t.candidate.parent_id == trial.candidate.id]
    corrected = {str(parameters_of(child).get("repairs", "")) for child in children}
    listed = [
        child
        for child in children
        if child.candidate.plan is not None
        and not child.candidate.plan.is_instance
        and child.candidate.id not in corrected
    ]
    limit = trial.latency or 0.0
    faster = sorted(
        (c for c in listed if c.latency is not None and c.latency < limit),
        key=lambda child: child.latency or 0.0,
    )
    others = [child for child in listed if child.latency is None or child.latency >= limit]

    def told(attempts: Sequence[Trial]) -> list[tuple[str, Trial]]:
        """Each line once, without notes, with the first attempt that it describes."""
        lines: dict[str, Trial] = {}
        for child in attempts:
            line = f"{_what(child.candidate.plan)}: {_attempt(child, trial, causes)}"
            lines.setdefault(line, child)
        return list(lines.items())

    shown = [*told(faster)[:MOST_OTHERS], *told(others)[-MOST_ATTEMPTS:]]
    values = describe_values(trial, history)
    return [
        *([values] if values else []),
        *(line + _compiled(child, trial, causes, notes) for line, child in shown),
    ]


def describe_others(
    trial: Trial, history: History, causes: Sequence[str] = (), notes: Notes | None = None
) -> list[str]:
    """The fastest kernels of the run that `trial` neither came from nor led to.

    Each kernel has the option, the plan in one line, its latency relative to that of `trial`, and
    the differences of its largest causes, or the notes (as in `describe_tried`). For the instances
    of a template, only the fastest is listed, with the plan that introduced the template. Empty if
    `trial` was not measured.
    """
    before = trial.outcome
    if not isinstance(before, Measured):
        return []
    apart = {template_of(one) for one in history.lineage(trial.candidate.id)}
    fastest: dict[str, Trial] = {}
    for other in history:
        family, latency = template_of(other), other.latency
        if latency is None or family in apart or other.candidate.parent_id == trial.candidate.id:
            continue
        if family not in fastest or latency < (fastest[family].latency or 0.0):
            fastest[family] = other
    lines = []
    ranked = sorted(fastest.items(), key=lambda found: found[1].latency or 0.0)
    for family, other in ranked[:MOST_OTHERS]:
        brought, after = history.get(family), other.outcome
        assert isinstance(after, Measured), "only measured kernels are compared"
        what = _what(brought.candidate.plan if brought is not None else None)
        compared = _compared(after.latency, before) + _why(before, after, causes)
        lines.append(f"{what}: {compared}{_compiled(other, trial, causes, notes)}")
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


def gist(plan: Plan) -> str:
    """The first line of a plan, in which models are asked to say what changes."""
    lines = [line.strip() for line in plan.text.splitlines()]
    first = next((line for line in lines if line and line[0] != "#"), plan.text)
    return shortened_line(first, LONGEST_CHANGE)


def _what(plan: Plan | None) -> str:
    return f"`{plan.option}` ({gist(plan)})" if plan is not None else "a change"


def _attempt(child: Trial, parent: Trial, causes: Sequence[str]) -> str:
    """How an attempt ended."""
    outcome, before = child.outcome, parent.outcome
    assert isinstance(before, Measured), "what is expanded was measured"
    if isinstance(outcome, Measured):
        how = "faster" if outcome.latency < before.latency else "slower"
        how = "as fast" if outcome.latency == before.latency else how
        told = f"{how}, {_compared(outcome.latency, before)}{_expected(child, before)}"
        return told + _why(before, outcome, causes)
    if outcome.kind == "slower_than_limit" and outcome.bound is not None:
        return (
            f"slower, takes at least {_compared(outcome.bound, before)}{_expected(child, before)}"
        )
    reason = ERROR.sub("", first_error(outcome)).strip(": \n").split("\n")[0]
    return f"{outcome.kind_in_words}: {shortened_line(reason)}"


def _expected(child: Trial, before: Measured) -> str:
    """The latency that a kernel's plan expected, if the plan gave one."""
    plan = child.candidate.plan
    if plan is None or not plan.expected_gain:
        return ""
    return f", {before.latency / plan.expected_gain:,.0f} were expected"


def _compiled(other: Trial, trial: Trial, causes: Sequence[str], notes: Notes | None) -> str:
    """How a measured kernel was compiled, if no causes say why its latency differs."""
    measured = [t.outcome for t in (other, trial) if isinstance(t.outcome, Measured)]
    is_explained = causes or any(outcome.breakdown for outcome in measured)
    if notes is None or len(measured) < 2 or is_explained:
        return ""
    said = next(iter(notes(other.candidate.source)), "").partition(": ")[2].rstrip(".")
    loops = _OF_A_LINE.sub("", said).split("; ")
    while len("; ".join(loops)) > LONGEST_NOTE and loops[1:]:
        loops.pop()
    text = shortened_line("; ".join(loops), LONGEST_NOTE)
    return f"; compiled as {text}" if text else ""


def _why(before: Measured, after: Measured, causes: Sequence[str]) -> str:
    """The changes of those causes that changed most; empty if no causes are counted."""
    names = causes or sorted(before.breakdown.keys() | after.breakdown.keys())
    changed = {n: after.breakdown.get(n, 0.0) - before.breakdown.get(n, 0.0) for n in names}
    least = max(1.0, TELLING_CHANGE * abs(after.latency - before.latency))
    largest = sorted(changed.items(), key=lambda change: -abs(change[1]))[:MOST_CHANGES]
    told = ", ".join(f"{in_words(name)} {by:+,.0f}" for name, by in largest if abs(by) >= least)
    return f": {told}" if told else ""


def _compared(latency: float, before: Measured) -> str:
    return f"{latency:,.0f} {before.unit} ({latency / before.latency - 1:+.1%})"


def _latency(trial: Trial) -> str:
    if isinstance(trial.outcome, Failed):
        return "not measured"
    return f"{trial.outcome.latency:,.0f} {trial.outcome.unit}"
