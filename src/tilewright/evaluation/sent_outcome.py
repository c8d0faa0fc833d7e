"""Reads an outcome that another machine sent: what is not exactly one is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from tilewright.core.codec import from_json
from tilewright.core.records import Failed, Measured, Outcome

MOST_BYTES = 1 << 26
"""Of a message that brings one; a longer one is not ours."""
_SAID = ("outcome", "ready", "stage", "problem", "code", "modelled", "preflight")


def outcome_sent(plain: Mapping[str, Any]) -> Outcome:
    """An outcome whose every field has its declared type.

    Raises `KeyError`, `TypeError`, `ValueError` or `RecursionError` for anything else.
    """
    record = from_json(plain)
    if not isinstance(record, (Measured, Failed)):
        raise TypeError(f"{plain.get('type')!r} is not an outcome")
    _type_of(type(record).__name__).validate_json(json.dumps(plain), strict=True)
    numbers = (record.latency,) if isinstance(record, Measured) else ()
    if any(not math.isfinite(n) or n <= 0 for n in numbers):
        raise ValueError("a latency must be above 0")
    outcome: Outcome = record
    return outcome


def has_form(reply: object) -> bool:
    """Whether a worker's reply is an object that says one of the things that `worker.py` says."""
    if not isinstance(reply, dict):
        return False
    if "error" in reply and "outcome" not in reply:
        error = reply["error"]
        return isinstance(error, dict) and {"type", "message"} <= set(error)
    return any(name in reply for name in _SAID)


@cache
def _type_of(kind: str) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter({"Measured": Measured, "Failed": Failed}[kind])
