"""Integer types of at most 32 bits: values that do not fit wrap around, which the IR cannot
express.

Variables of 32 bits are assumed to hold all values that depend on loops. Only their constants are
checked.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.proposers.rewriter.expr import Bounds, Expr, bounds
from tilewright.proposers.rewriter.lifting.symbolic_values import NotModelled, Value, is_marked

_RANGES = {
    "bool": (0, 1),
    "_Bool": (0, 1),
    "int8_t": (-128, 127),
    "uint8_t": (0, 255),
    "int16_t": (-32768, 32767),
    "uint16_t": (0, 65535),
}
_WORDS = frozenset(("int", "signed", "unsigned", "int32_t", "uint32_t"))
_LOWEST, _HIGHEST = -(1 << 31), (1 << 32) - 1
"""The numbers that either a signed or an unsigned integer of 32 bits can hold. Local addresses keep
their bits in both."""


def stored(kind: str, value: Value, ranges: Mapping[str, Bounds]) -> Value:
    """The value, if a variable of this type represents it unchanged. Raises `NotModelled`.

    `ranges` are those of the enclosing loops.

    A bit that a loop flips is also followed. Nothing is known yet about other values that a loop
    changes.
    """
    limits = _limits(kind)
    if limits is None and isinstance(value, Expr) and _has_32_bits(kind):
        if all(_LOWEST <= n <= _HIGHEST for n in (value.const, *(c for _, c in value.terms))):
            return value
        raise NotModelled(f"a constant does not fit the type {kind}")
    if limits is None or not isinstance(value, Expr):
        return value  # conditions are 0 or 1, and addresses never have these types
    low, high = bounds(value, ranges)
    flips = is_marked(value) and (value.terms[0][1], value.const) in ((1, 0), (-1, 1))
    if flips or (limits[0] <= low and high <= limits[1]):
        return value
    raise NotModelled(f"a number may not fit its type {kind}")


def _has_32_bits(kind: str) -> bool:
    words = set(kind.split())
    return bool(words & _WORDS) and "long" not in words


def is_narrow(kind: str) -> bool:
    """Whether numbers of this type may wrap around before they are used."""
    return _limits(kind) is not None


def _limits(kind: str) -> tuple[int, int] | None:
    words = set(kind.split())
    for name in words & _RANGES.keys():
        return _RANGES[name]
    if "char" in words:  # char has the signedness of the machine, so only values in both ranges fit
        return (0 if "signed" not in words else -128, 255 if "unsigned" in words else 127)
    if "short" in words:
        return (0, 65535) if "unsigned" in words else (-32768, 32767)
    return None
