"""Integer types narrower than `int`: values that do not fit wrap, which no expression says."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.proposers.rewriter.expr import Bounds, Expr, bounds
from tilewright.proposers.rewriter.lifting.kinds import NotModelled, Value, is_marked

_RANGES = {
    "bool": (0, 1),
    "_Bool": (0, 1),
    "int8_t": (-128, 127),
    "uint8_t": (0, 255),
    "int16_t": (-32768, 32767),
    "uint16_t": (0, 65535),
}


def stored(kind: str, value: Value, ranges: Mapping[str, Bounds]) -> Value:
    """The value, where a variable of this type holds it unchanged. Raises `NotModelled`.

    `ranges` are those of the loops around it.

    A bit that a loop flips is followed too; of other values a loop changes nothing is known yet.
    """
    limits = _limits(kind)
    if limits is None or not isinstance(value, Expr):
        return value  # conditions are 0 or 1, addresses are not of these types
    low, high = bounds(value, ranges)
    flips = is_marked(value) and (value.terms[0][1], value.const) in ((1, 0), (-1, 1))
    if flips or (limits[0] <= low and high <= limits[1]):
        return value
    raise NotModelled(f"a number of type {kind} that may not fit it")


def is_narrow(kind: str) -> bool:
    """Whether numbers of this type may wrap before they are used."""
    return _limits(kind) is not None


def _limits(kind: str) -> tuple[int, int] | None:
    words = set(kind.split())
    for name in words & _RANGES.keys():
        return _RANGES[name]
    if "char" in words:  # of no sign of its own, it has the machine's: only what both hold
        return (0 if "signed" not in words else -128, 255 if "unsigned" in words else 127)
    if "short" in words:
        return (0, 65535) if "unsigned" in words else (-32768, 32767)
    return None
