"""Checks the outcomes that evaluating processes send, on this machine or another one.

A candidate may control the process, and the other machine may not be trustworthy. The outcomes are
later stored, printed, shown to models and compared, so their sizes and values are limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from tilewright.core.codec import outcome_from_json
from tilewright.core.records import PRECISIONS, Failed, LatencyKind, Measured, Outcome
from tilewright.core.text import plain_text

MOST_BYTES = 1 << 26
"""Maximum size of a message with an outcome. tilewright sends no longer ones."""
MOST_TEXT = 1 << 20
"""Maximum number of characters of a log or of feedback, which is more than tilewright ever
writes.
"""
MOST_NAME = 4000
"""Maximum number of characters of a name, a version or a warning."""
MOST_SHOWN = 40
"""Maximum number of characters of a name in a message about it."""
MOST_ENTRIES = 1000
"""Maximum number of entries of a breakdown, of checks, of warnings and similar lists."""
MOST_LINES = 100_000
"""Maximum number of source lines with costs."""
_SAID = ("outcome", "ready", "stage", "problem", "code", "modelled", "preflight")
_KIND = re.compile(r"[a-z][a-z0-9_]{0,59}", re.ASCII)


def has_form(reply: object) -> bool:
    """Whether a worker's reply has one of the forms that `worker.py` sends."""
    if not isinstance(reply, dict):
        return False
    if "error" in reply and "outcome" not in reply:
        error = reply["error"]
        return isinstance(error, dict) and {"type", "message"} <= set(error)
    return any(name in reply for name in _SAID)


def read_outcome(value: object, latency: LatencyKind) -> Outcome:
    """The outcome that a process sent; `TypeError` or `ValueError` if it is not valid.

    `latency` is the kind that the target declares. Latencies of another kind are refused, because
    the search would compare numbers that mean different things.

    Control characters are removed from its texts. Numbers that no evaluation can give, names that
    are not printable words, and lists that are too long are refused.
    """
    outcome = outcome_from_json(value)
    if isinstance(outcome, Failed):
        return _failed(outcome)
    return _measured(outcome, latency)


def _failed(failed: Failed) -> Failed:
    _require(_KIND.fullmatch(failed.kind), "the kind of a failure is not a single word")
    _require_names([failed.sandbox])
    _require(
        failed.line is None or 0 < failed.line < 10**9, "a line number is outside any source file"
    )
    _require(failed.bound is None or failed.bound > 0, "a bound is not greater than 0")
    _require(len(failed.log) <= MOST_TEXT, "a log is too long")
    return replace(failed, log=plain_text(failed.log))


def _measured(found: Measured, latency: LatencyKind) -> Measured:
    checks = found.verdict.checks
    _require(
        found.is_of(latency),
        f"a latency is given in {found.quantity[:MOST_SHOWN]!r} {found.unit[:MOST_SHOWN]!r}, but "
        f"the target's latencies are {latency}",
    )
    _require(checks, "a kernel was measured without a check")
    _require(
        all(c.precision in ("", *PRECISIONS) for c in checks),
        "a precision is not one of the classes",
    )
    _require(found.utilization >= 0, "a utilization is below 0")
    _require(found.noise >= 0, "noise is below 0")
    _require(found.bound is None or found.bound > 0, "a bound is not greater than 0")
    _require(all(gap.start >= 0 and gap.length >= 0 for gap in found.gaps), "a gap is below 0")
    parts = (
        *(checks, found.warnings, found.breakdown, found.details, found.versions, found.samples),
        *(found.phases, found.gaps, *found.phases, *found.by_line.values()),
    )
    _require(max(map(len, parts)) <= MOST_ENTRIES, "a list is too long")
    _require(len(found.by_line) <= MOST_LINES, "there are too many source lines")
    _require(len(found.feedback) <= MOST_TEXT, "the feedback is too long")
    _require(all(len(text) <= MOST_NAME for text in found.warnings), "a warning is too long")
    # Each name is checked once, because most names occur in many source lines.
    names = {found.artifact_digest, found.sandbox}.union(
        *(found.breakdown, found.details, found.versions, found.samples),
        found.by_line,  # line numbers, and "elsewhere"
        found.versions.values(),
        (check.distribution for check in checks),
        (gap.cause for gap in found.gaps),
        *found.phases,
        *found.by_line.values(),
    )
    _require_names(names)
    return replace(
        found,
        feedback=plain_text(found.feedback),
        warnings=tuple(map(plain_text, found.warnings)),
    )


def _require_names(names: Iterable[str]) -> None:
    for name in names:
        _require(len(name) <= MOST_NAME and name.isprintable(), "a name is not printable text")


def _require(holds: object, problem: str) -> None:
    if not holds:
        raise ValueError(problem)
