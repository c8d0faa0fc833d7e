"""Budgets as text: "90 s, 500 evaluations, 5 USD, 3 Mtok, 40 calls"."""

from __future__ import annotations

import math
import re

from tilewright.core.budget import Budget
from tilewright.core.errors import InputError
from tilewright.core.text import counted, shortened

_UNITS: dict[str, tuple[str, float]] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), ("wall_s", 1.0)),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), ("wall_s", 60.0)),
    **dict.fromkeys(("h", "hour", "hours"), ("wall_s", 3600.0)),
    **dict.fromkeys(
        ("evaluation", "evaluations", "eval", "evals", "trial", "trials"), ("evaluations", 1.0)
    ),
    **dict.fromkeys(("usd", "$", "dollar", "dollars"), ("usd", 1.0)),
    **dict.fromkeys(("tok", "token", "tokens"), ("tokens", 1.0)),
    **dict.fromkeys(("ktok", "ktokens"), ("tokens", 1e3)),
    **dict.fromkeys(("mtok", "mtokens"), ("tokens", 1e6)),
    **dict.fromkeys(("call", "calls"), ("calls", 1.0)),
}
"""For each unit, the quantity that it limits and the size of one unit."""

_PART = re.compile(r"([-+]?\d+(?:\.\d+)?)\s*([a-z$]+)")
_EXPECTED = 'write for example "90 s", "500 evaluations" or "5 USD, 2 h, 3 Mtok, 40 calls"'


def parse_budget(text: str) -> Budget:
    """The budget in `text`: comma-separated amounts, each kind of limit at most once.

    Raises InputError for an unknown unit, a repeated limit, an amount of zero, or a fraction of a
    unit that is counted.
    """
    limits: dict[str, float] = {}
    for part in text.lower().split(","):
        amount, kind = _read_part(part.strip(), text)
        is_counted = kind in ("evaluations", "tokens", "calls")
        if kind in limits or (is_counted and amount != int(amount)):
            raise _unusable(text)
        limits[kind] = int(amount) if is_counted else amount
    return Budget(**limits)  # type: ignore[arg-type]


def describe_budget(budget: Budget) -> str:
    """A text that `parse_budget` converts back to the same budget; empty if there is no limit."""
    parts = []
    if budget.usd is not None:
        parts.append(f"{_plain(budget.usd)} USD")
    if budget.wall_s is not None:
        parts.append(f"{_plain(budget.wall_s)} s")
    if budget.evaluations is not None:
        parts.append(counted(budget.evaluations, "evaluation"))
    if budget.tokens is not None:
        parts.append(counted(budget.tokens, "token"))
    if budget.calls is not None:
        parts.append(counted(budget.calls, "call"))
    return ", ".join(parts)


def _plain(amount: float) -> str:
    """The number without an exponent, because `parse_budget` does not accept exponents."""
    return f"{amount:.6f}".rstrip("0").rstrip(".")


def _read_part(part: str, text: str) -> tuple[float, str]:
    """The amount in one comma-separated part, and the limit that it sets."""
    match = _PART.fullmatch(part)
    if match is None or match[2] not in _UNITS:
        raise _unusable(text)
    kind, size = _UNITS[match[2]]
    amount = round(float(match[1]) * size, 6)
    if amount <= 0:
        raise InputError(
            f"the budget {shortened(text)} contains {shortened(part)}, but every amount must be "
            f"above 0; {_EXPECTED}."
        )
    if not math.isfinite(amount):
        raise _unusable(text)
    return amount, kind


def _unusable(text: str) -> InputError:
    return InputError(f"the budget {shortened(text)} cannot be read; {_EXPECTED}.")
