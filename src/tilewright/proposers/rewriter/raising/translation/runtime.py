"""Functions that the translated text calls."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.proposers.rewriter.raising.types import (
    Number,
)


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _divided(left: int, right: int) -> int:
    return left // right if (left >= 0) == (right > 0) else -(-left // right)


def _rest(left: int, right: int) -> int:
    return left - right * _divided(left, right)


def _places(count: int, bits: int) -> int:
    if not 0 <= count < bits:
        raise ValueError(f"a number is shifted by {count} bits")
    return count


def _within(value: int) -> int:
    if value.bit_length() > _MOST_BITS:
        raise OverflowError("a product or a shift overflows")
    return value


def held(code: str, operator: str, kind: Number) -> str:
    """A signed number, which is not reduced to its type but must not grow without limit."""
    grows = operator in ("*", "<<") and kind.signed and not kind.floating
    return f"within{code}" if grows else code


_MOST_BITS = 128
RUNTIME: Mapping[str, object] = {
    "within": _within, "signed": _signed, "places": _places, "divided": _divided, "rest": _rest,
    "int": int, "bool": bool, "float": float, "next": next,
}  # fmt: skip
"""The functions that the translated text calls, in addition to the memory and the list of
commands."""
