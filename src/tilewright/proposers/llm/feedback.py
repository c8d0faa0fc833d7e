"""Measurements and failures in words, as a model reads them."""

from __future__ import annotations

from itertools import pairwise

from tilewright.core.records import Failed, History, Measured, Schedule, Trial

LONGEST_PLAN = 1500
"""Characters of an earlier run's plan that are shown."""

CONTEXT_LINES = 2
"""Source lines shown before and after the line of a failure."""

_STAGES = {
    "build": "It does not compile.",
    "check": "It compiles, but fails its check.",
    "measure": "It passes its checks, but fails when it is measured.",
}


def describe_latency(trial: Trial) -> str:
    """Latency, utilisation, memory use and what binds, one line each."""
    outcome = trial.outcome
    if isinstance(outcome, Failed):
        return "It has not been measured."
    lines = [
        f"- latency: {outcome.latency:,.0f} {outcome.unit}",
        f"- utilisation of the array: {outcome.utilization:.1%} of its peak",
        *(f"- {_words(name)}: {value:,.0f}" for name, value in outcome.details.items()),
    ]
    causes = _causes(outcome)
    if outcome.feedback:  # the target's own words say more
        lines += [f"- {line}" for line in outcome.feedback.splitlines()]
    elif causes:
        name, share = causes[0]
        lines.append(f"- most time goes to: {_words(name)} ({share:.0%})")
        shares = ", ".join(f"{_words(name)} {share:.0%}" for name, share in causes)
        lines.append(f"- shares of the latency, which may overlap: {shares}")
    return "\n".join(lines)


def describe_ancestors(trial: Trial, history: History) -> list[str]:
    """The steps that led from the starting kernel to `trial`, with the latency after each."""
    steps = []
    for ancestor in history.lineage(trial.candidate.id)[1:]:
        plan = ancestor.candidate.plan
        what = f"`{plan.option}`" if plan else "a change"
        steps.append(f"{what}: {_latency(ancestor)}")
    return steps


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
    parts = [f"{_STAGES[failed.stage]} ({failed.kind.replace('_', ' ')})", failed.log.strip()]
    if failed.line is not None:
        parts.append(_excerpt(trial.candidate.source, failed.line))
    return "\n\n".join(parts)


def _excerpt(source: str, line: int) -> str:
    lines = source.splitlines()
    first = max(1, line - CONTEXT_LINES)
    shown = [
        f"{'->' if number == line else '  '} {number:4d} | {text}"
        for number, text in enumerate(lines, 1)
        if first <= number <= line + CONTEXT_LINES
    ]
    return f"Line {line}:\n\n" + "\n".join(shown) if shown else f"Line {line}."


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
