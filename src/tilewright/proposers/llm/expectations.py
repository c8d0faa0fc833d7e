"""The speedup that a plan's EXPECTED line promises."""

from __future__ import annotations

import re

from tilewright.core.records import Measured, Trial

_NUMBER = r"([0-9][0-9,]{0,20}(?:\.[0-9]{1,6})?)"
_ABOUT = r"(?:about|around|roughly|approximately|~)?\s{0,3}"
_CLOSE = 0.02  # a latency is the parent's if it differs by at most this share


def expected_gain(expected: str, parent: Trial) -> float | None:
    """The speedup over `parent`; None unless the text gives a latency.

    It gives one if it begins with a number in the unit of the parent's latency, or says "from" the
    parent's latency "to" another one.
    """
    outcome = parent.outcome
    if not isinstance(outcome, Measured):
        return None
    unit = re.escape(outcome.unit)
    whole = re.match(rf"{_ABOUT}{_NUMBER} {unit}\b(?! (?:less|fewer|saved))", expected)
    if whole:
        return _ratio(outcome.latency, whole[1])
    change = re.search(rf"\bfrom {_ABOUT}{_NUMBER}(?: {unit})? to {_ABOUT}{_NUMBER}", expected)
    if change is None:
        return None
    before = float(change[1].replace(",", ""))
    is_latency = abs(before / outcome.latency - 1) <= _CLOSE
    return _ratio(outcome.latency, change[2]) if is_latency else None


def _ratio(before: float, after: str) -> float | None:
    latency = float(after.replace(",", ""))
    return before / latency if latency else None
