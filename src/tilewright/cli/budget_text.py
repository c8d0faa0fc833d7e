"""Reads `--budget "90 s, 500 evaluations"`."""

from __future__ import annotations

import math
import re

from tilewright.core.budget import Budget
from tilewright.core.errors import InputError

_SECONDS_PER_UNIT = {"s": 1.0, "min": 60.0, "h": 3600.0}
_UNIT_NAMES = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("evaluation", "evaluations", "eval", "evals"), "evaluations"),
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_EXPECTED = 'expected for example "90 s", "500 evaluations" or "10 min, 500 evaluations"'


def parse_budget(text: str) -> Budget:
    """The budget in `text`: comma-separated amounts of time and evaluations, each at most once.

    Raises InputError for an unknown unit, a repeated limit, a zero or a fractional evaluation.
    """
    wall_s: float | None = None
    evaluations: int | None = None
    for part in text.lower().split(","):
        amount, unit = _read_part(part.strip(), text)
        if unit == "evaluations":
            if evaluations is not None or amount != int(amount):
                raise _unusable(text)
            evaluations = int(amount)
        else:
            if wall_s is not None:
                raise _unusable(text)
            wall_s = amount * _SECONDS_PER_UNIT[unit]
    return Budget(evaluations=evaluations, wall_s=wall_s)


def describe_budget(budget: Budget) -> str:
    """The text `parse_budget` reads back to the same budget, empty without any limit."""
    parts = []
    if budget.wall_s is not None:
        parts.append(f"{budget.wall_s!r} s".replace(".0 s", " s"))
    if budget.evaluations is not None:
        parts.append(f"{budget.evaluations} evaluations")
    return ", ".join(parts)


def _read_part(part: str, text: str) -> tuple[float, str]:
    """Amount and canonical unit of one comma-separated part."""
    match = _PART.fullmatch(part)
    if match is None or match[2] not in _UNIT_NAMES:
        raise _unusable(text)
    amount = float(match[1])
    if amount <= 0 or not math.isfinite(amount):
        raise _unusable(text)
    return amount, _UNIT_NAMES[match[2]]


def _unusable(text: str) -> InputError:
    return InputError(f"cannot use --budget {text!r}: {_EXPECTED}.")
