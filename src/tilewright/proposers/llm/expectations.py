"""The speedup that a plan's EXPECTED line promises."""

from __future__ import annotations

import re

from tilewright.core.records import Measured, Trial

_ABOUT = r"(?:about|around|roughly|approximately|~)?\s{0,3}"
_NUMBER = r"[0-9][0-9,]{0,20}(?:\.[0-9]{1,6})?"
_LATENCY = rf"{_ABOUT}({_NUMBER})(?:\s?(?:-|–|to)\s?({_NUMBER}))?"
"""A number or a range of numbers."""
_WHOLE = r"(?=\s*(?:$|[.,;:(]|(?:instead|rather|in total|in all|overall|from|for|because)\b))"
"""What follows a latency. After "4,500 cycles", words such as "of dma wait" or "less" mean that the
number is a part or a saving.
"""
_CHANGE = r"(?:(?:down )?to|->|→)"
_CLOSE = 0.02  # a latency is the parent's if it differs by at most this share


def expected_gain(expected: str, parent: Trial) -> float | None:
    """The speedup over `parent`; None unless the text gives a latency.

    It gives one if it begins with a number in the unit of the parent's latency, or names the
    parent's latency and says "to" another one. Of a range, the middle counts. A number of one or
    two digits is the parent's latency only after "from" or before the unit, because tile sizes and
    numbers of rows are as short.
    """
    outcome = parent.outcome
    if not isinstance(outcome, Measured):
        return None
    unit = re.escape(outcome.unit)
    changes = rf"(from {_ABOUT})?(?<![0-9,.])({_NUMBER})( {unit})? {_CHANGE} {_LATENCY}"
    for change in re.finditer(changes, expected):
        is_latency = change[1] or change[3] or len(re.findall(r"\d", change[2])) > 2
        if is_latency and abs(_value(change[2]) / outcome.latency - 1) <= _CLOSE:
            return _ratio(outcome.latency, change[4], change[5])
    whole = re.match(rf"{_LATENCY} {unit}\b{_WHOLE}", expected)
    return _ratio(outcome.latency, whole[1], whole[2]) if whole else None


def _ratio(before: float, low: str, high: str | None) -> float | None:
    most = _value(high or low)
    latency = (_value(low) + most) / 2 if most >= _value(low) else _value(low)
    return before / latency if latency else None


def _value(number: str) -> float:
    return float(number.replace(",", ""))
