"""Mistakes that kernels of a run made, for the prompts that ask for further kernels."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tilewright.core.line_changes import LineChanges
from tilewright.core.records import Failed, History, Measured, Trial
from tilewright.proposers.llm.feedback import PLACE, first_error, shortened_line

MOST_MISTAKES = 6
"""Number of mistakes that are shown, the latest ones."""

MOST_CORRECTED_LINES = 3
"""Number of lines of a correction that are shown; a longer correction is left out."""

NO_LESSON = ("wrong_result", "slower_than_limit", "crash", "timeout", "non_deterministic")
"""Failures that say nothing about how kernels are written."""

_LOCATION = re.compile(rf"{PLACE}(?:(?:fatal )?error: )?")
"""What precedes the text of a message that names a line."""


def describe_mistakes(history: History) -> list[str]:
    """The latest mistakes in kernels of this run, each once, with the line and its correction.

    Only errors that break a rule of the language or of the machine are listed, because another
    kernel can break the same rule.
    """
    corrections = _corrections(history)
    told: dict[str, str] = {}
    for trial in history:
        failed = trial.outcome
        plan = trial.candidate.plan
        if not isinstance(failed, Failed) or failed.kind in NO_LESSON:
            continue
        if plan is None or plan.is_instance:
            continue
        message = shortened_line(_LOCATION.sub("", first_error(failed)).split("\n")[0]).rstrip(".")
        told.pop(message, None)  # the latest kernel with this mistake is shown
        told[message] = message + _where(trial, failed, corrections.get(trial.candidate.id)) + "."
    return list(told.values())[-MOST_MISTAKES:]


def _corrections(history: Iterable[Trial]) -> dict[str, str]:
    """The sources of kernels that were measured and correct another, by the other's id."""
    return {
        str(trial.candidate.plan.parameters["repairs"]): trial.candidate.source
        for trial in history
        if isinstance(trial.outcome, Measured)
        and trial.candidate.plan is not None
        and "repairs" in trial.candidate.plan.parameters
    }


def _where(trial: Trial, failed: Failed, corrected: str | None) -> str:
    """The line of the mistake, and the lines that replaced it in a kernel that passed."""
    lines = trial.candidate.source.splitlines()
    if failed.line is None or not 0 < failed.line <= len(lines):
        return ""
    text = f", in `{shortened_line(lines[failed.line - 1])}`"
    if corrected is None:
        return text
    after = corrected.splitlines()
    for what, first, last, begin, end in LineChanges(lines, after).get_opcodes():
        inside = first <= failed.line - 1 < last
        if what == "replace" and inside and end - begin <= MOST_CORRECTED_LINES:
            new = shortened_line(" ".join(after[begin:end]))
            return f"{text}; corrected: `{new}`"
    return text
