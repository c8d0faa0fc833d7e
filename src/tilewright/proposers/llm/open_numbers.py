"""Describes in prompts which values of a template's parameters were tried."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core.records import Failed, History, Measured, Trial
from tilewright.core.templates import planned_values

MOST_VALUES = 3
"""Number of other instances of a template that are shown, the fastest ones."""


def template_of(trial: Trial) -> str:
    """The candidate that introduced an instance's template, or the candidate itself if it is not an
    instance.
    """
    return str(parameters_of(trial).get("instance", trial.candidate.id))


def parameters_of(trial: Trial) -> Mapping[str, str | int]:
    """The parameters of the plan; empty without a plan."""
    return trial.candidate.plan.parameters if trial.candidate.plan else {}


def describe_values(trial: Trial, history: History) -> str:
    """The other instances of the kernel's template in one sentence: how many there are, the values
    and latencies of the fastest, and the values of the last one that is wrong. Empty if there are
    none, or if one of them is faster.
    """
    before, template = trial.outcome, template_of(trial)
    others = [t for t in history if t is not trial and template_of(t) == template]
    if not others or not isinstance(before, Measured):
        return ""
    measured = sorted((t.latency, t.index, t) for t in others if t.latency is not None)
    if measured and measured[0][0] < before.latency:
        return ""
    told = [
        f"{_values(other)}: {latency:,.0f} {before.unit} ({latency / before.latency - 1:+.1%})"
        for latency, _, other in measured[:MOST_VALUES]
        if planned_values(parameters_of(other))
    ]
    fastest = f"; the fastest are {'; '.join(told)}" if told else ""
    wrong = [
        f"{_values(other)} ({other.outcome.kind_in_words})"
        for other in others
        if isinstance(other.outcome, Failed) and other.outcome.stage != "measure"
    ]
    if wrong:
        fastest += f"; {len(wrong)} failed, the last one was {wrong[-1]}"
    chosen = f" than {_values(trial)}" if planned_values(parameters_of(trial)) else ""
    return f"other values of its open numbers, {len(others)}: none faster{chosen}{fastest}"


def _values(trial: Trial) -> str:
    values = planned_values(parameters_of(trial))
    return ", ".join(f"{name} = {value}" for name, value in values.items())
