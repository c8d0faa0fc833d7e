"""Functions that the translated text calls."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.proposers.rewriter.raising.types import Number


def signed(value: int, bits: int) -> int:
    """A number converted to a signed integer of `bits` bits. It may also be an array."""
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


def divided(left: int, right: int) -> int:
    """The quotient of C, which is rounded towards zero."""
    return left // right if (left >= 0) == (right > 0) else -(-left // right)


def rest(left: int, right: int) -> int:
    """What a division of C leaves."""
    return left - right * divided(left, right)


def _places(count: int, bits: int) -> int:
    if not 0 <= count < bits:
        raise ValueError(f"a number is shifted by {count} bits")
    return count


def within(value: int) -> int:
    """A number, which must not have too many bits."""
    if value.bit_length() > _MOST_BITS:
        raise OverflowError("a product or a shift overflows")
    return value


def held(code: str, operator: str, kind: Number) -> str:
    """A signed number, which is not reduced to its type but must not grow without limit."""
    grows = operator in ("*", "<<") and kind.signed and not kind.floating
    return f"within{code}" if grows else code


_MOST_BITS = 128
RUNTIME: Mapping[str, object] = {
    "within": within, "signed": signed, "places": _places, "divided": divided, "rest": rest,
    "int": int, "bool": bool, "float": float, "next": next,
}  # fmt: skip
"""The functions that the translated text calls, in addition to the memory and the list of
commands."""
