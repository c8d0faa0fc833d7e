"""Converts trials to the results of tools: outcomes, differences, profiles and earlier attempts."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core.records import Failed, Measured, Outcome, Trial
from tilewright.core.text import plain_text
from tilewright.proposers.llm.attempts import gist
from tilewright.proposers.llm.feedback import first_error
from tilewright.tools.records import (
    Attempt,
    Checked,
    Difference,
    Evaluated,
    Profiled,
    ProfiledGap,
    ProfiledLine,
    ProfiledPhase,
    Tried,
)

SMALLEST_SHARE = 0.001
"""Share of the latency below which the difference of a cause is left out."""
MOST_ATTEMPTS = 20
"""Number of earlier attempts that are shown, the latest ones."""
MOST_LINES = 60
"""Number of source lines in a profile, those with the highest counts."""
MOST_CHARACTERS = 2000
"""Maximum number of characters of an error or of the description of an attempt."""


def checked(candidate: str, failed: Failed | None) -> Checked:
    """The result of a build."""
    if failed is None:
        return Checked(candidate, builds=True)
    builds = failed.stage != "build"
    return Checked(candidate, builds, failed.kind, failed.line, _error(failed))


def evaluated(
    trial: Trial, parent: Trial, best: Trial | None, *, known: bool, left: int | None
) -> Evaluated:
    """A trial, compared with its parent and with the best kernel."""
    candidate, outcome = trial.candidate.id, trial.outcome
    if isinstance(outcome, Failed):
        return Evaluated(
            candidate,
            trial.index,
            outcome.kind,
            known,
            stage=outcome.stage,
            line=outcome.line,
            error=_error(outcome),
            left=left,
        )
    return Evaluated(
        candidate,
        trial.index,
        "correct",
        known,
        outcome.latency,
        outcome.unit,
        outcome.quantity,
        outcome.utilization,
        outcome.bound,
        difference(trial, parent),
        difference(trial, best) if best is not None and best != parent else None,
        left=left,
        noise=outcome.noise,
    )


def difference(trial: Trial, other: Trial) -> Difference | None:
    """The difference between two kernels; None unless both were measured and they are different
    kernels.
    """
    mine, theirs = trial.outcome, other.outcome
    same = trial.candidate.id == other.candidate.id
    if same or not isinstance(mine, Measured) or not isinstance(theirs, Measured):
        return None
    names = dict.fromkeys((*mine.breakdown, *theirs.breakdown))
    changes = {n: mine.breakdown.get(n, 0.0) - theirs.breakdown.get(n, 0.0) for n in names}
    told = {n: c for n, c in changes.items() if abs(c) >= SMALLEST_SHARE * theirs.latency}
    latency = mine.latency - theirs.latency
    causes = dict(sorted(told.items(), key=lambda item: -abs(item[1])))
    return Difference(other.candidate.id, latency, latency / theirs.latency, causes)


def profiled(trial: Trial, exclusive: Sequence[str] = ()) -> Profiled | None:
    """The profile of a kernel; None if it was not measured.

    Each unit of time has exactly one of the `exclusive` causes of the target.
    """
    outcome = trial.outcome
    if not isinstance(outcome, Measured):
        return None
    texts = trial.candidate.source.splitlines()
    counted = [(int(line), counts) for line, counts in outcome.by_line.items() if line.isdecimal()]
    most = sorted(counted, key=lambda item: -max(item[1].values(), default=0.0))[:MOST_LINES]
    return Profiled(
        trial.candidate.id,
        outcome.latency,
        outcome.unit,
        outcome.quantity,
        dict(sorted(outcome.breakdown.items(), key=lambda item: -item[1])),
        dict(outcome.details),
        tuple(
            ProfiledLine(line, _text(texts, line), counts)
            for line, counts in sorted(most, key=lambda item: item[0])
        ),
        outcome.feedback,
        tuple(cause for cause in exclusive if cause in outcome.breakdown),
        _phases(outcome),
        len(counted) - len(most),
        tuple(
            ProfiledGap(gap.start, gap.length, gap.cause, gap.line, _text(texts, gap.line))
            for gap in outcome.gaps
        ),
    )


def _text(lines: Sequence[str], number: int | None) -> str:
    return lines[number - 1].strip() if number and number <= len(lines) else ""


def _phases(outcome: Measured) -> tuple[ProfiledPhase, ...]:
    """The phases with a name each; causes largest first."""
    if len(outcome.phases) < 3:
        return ()
    middle = len(outcome.phases) - 2
    parts = [f"work, part {number} of {middle}" for number in range(1, middle + 1)]
    names = ("before the first work", *parts, "after the last work")
    return tuple(
        ProfiledPhase(when, dict(sorted(causes.items(), key=lambda item: -item[1])))
        for when, causes in zip(names, outcome.phases, strict=True)
    )


def tried(parent: Trial, attempts: Sequence[Trial], siblings: Sequence[Trial] = ()) -> Tried:
    """The kernels that were made from a kernel and from its parent, with their results."""
    told = attempts[-MOST_ATTEMPTS:]
    others = [trial for trial in siblings if trial.candidate.id != parent.candidate.id]
    return Tried(
        parent.candidate.id,
        tuple(attempt(child, parent) for child in told),
        len(attempts) - len(told),
        tuple(attempt(other, parent) for other in others[-MOST_ATTEMPTS:]),
    )


def attempt(child: Trial, parent: Trial) -> Attempt:
    """A kernel as an attempt to make its parent faster."""
    plan, change = child.candidate.plan, difference(child, parent)
    return Attempt(
        child.candidate.id,
        child.index,
        child.candidate.proposer,
        plan.option if plan else "",
        gist(plan) if plan else "",
        _verdict(child.outcome),
        child.latency,
        change.share if change else None,
    )


def _verdict(outcome: Outcome) -> str:
    return outcome.kind if isinstance(outcome, Failed) else "correct"


def _error(failed: Failed) -> str:
    return plain_text(first_error(failed)[:MOST_CHARACTERS])
