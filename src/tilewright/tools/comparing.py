"""Trials as the tools tell of them: outcomes, differences, profiles, earlier attempts."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core.records import Failed, Measured, Outcome, Trial
from tilewright.core.text import plain_text
from tilewright.proposers.llm.feedback import first_error, gist
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
"""Causes whose difference is a smaller share of the latency are left out."""
MOST_ATTEMPTS = 20
"""Earlier attempts that are told of: the latest."""
MOST_LINES = 60
"""Lines of a profile: those where most was counted."""
MOST_CHARACTERS = 2000
"""Of an error or of what was tried."""


def checked(candidate: str, failed: Failed | None) -> Checked:
    """What a build gave."""
    if failed is None:
        return Checked(candidate, builds=True)
    return Checked(candidate, False, failed.kind, failed.line, _error(failed))


def evaluated(
    trial: Trial, parent: Trial, best: Trial | None, *, known: bool, left: int | None
) -> Evaluated:
    """A trial beside the kernel it was made from and the best one."""
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
    """A kernel beside another; None unless both were measured and are not the same."""
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
    """Where the time of a kernel goes; None for one that was not measured.

    Every unit of time has one of the causes that are `exclusive` on this target.
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
    """What was made from a kernel and beside it, and how it ended."""
    told = attempts[-MOST_ATTEMPTS:]
    others = [trial for trial in siblings if trial.candidate.id != parent.candidate.id]
    return Tried(
        parent.candidate.id,
        tuple(attempt(child, parent) for child in told),
        len(attempts) - len(told),
        tuple(attempt(other, parent) for other in others[-MOST_ATTEMPTS:]),
    )


def attempt(child: Trial, parent: Trial) -> Attempt:
    """A kernel as an attempt to better the one that it was made from."""
    plan, beside = child.candidate.plan, difference(child, parent)
    return Attempt(
        child.candidate.id,
        child.index,
        child.candidate.proposer,
        plan.option if plan else "",
        gist(plan) if plan else "",
        _verdict(child.outcome),
        child.latency,
        beside.share if beside else None,
    )


def _verdict(outcome: Outcome) -> str:
    return outcome.kind if isinstance(outcome, Failed) else "correct"


def _error(failed: Failed) -> str:
    return plain_text(first_error(failed)[:MOST_CHARACTERS])
