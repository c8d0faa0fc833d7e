"""IEEE 754 by exact rational arithmetic: what each rounding mode must give. Finite inputs only."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt


@dataclass(frozen=True, slots=True)
class Format:
    """A binary format: mantissa bits with the hidden one, least and greatest exponent."""

    mantissa: int
    least: int
    greatest: int
    code: str
    integer: str

    def bits(self, value: float) -> int:
        return int(struct.unpack(self.integer, struct.pack(self.code, value))[0])


SINGLE = Format(24, -126, 127, "<f", "<I")
DOUBLE = Format(53, -1022, 1023, "<d", "<Q")


def round_to(value: Fraction, mode: int, form: Format, *, negative_zero: bool = False) -> float:
    """`value` in `form`: modes 0 nearest even, 1 to zero, 2 down, 3 up."""
    if value == 0:
        return -0.0 if negative_zero else 0.0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, form.least) - form.mantissa + 1)
    units = round_to_integer(value / unit, mode)
    largest = (2 - Fraction(2) ** (1 - form.mantissa)) * Fraction(2) ** form.greatest
    result = units * unit
    if abs(result) > largest:
        to_largest = mode == 1 or (mode == 2 and value > 0) or (mode == 3 and value < 0)
        bound = float(largest) if to_largest else float("inf")
        return bound if value > 0 else -bound
    return float(result) if result else (-0.0 if value < 0 else 0.0)


def round_to_integer(value: Fraction, mode: int) -> int:
    """As `round_to`; mode 4 is nearest with ties away from zero."""
    floor = value.numerator // value.denominator
    rest = value - floor
    if rest == 0 or mode == 2:
        return floor
    if mode == 3:
        return floor + 1
    if mode == 1:
        return floor + (value < 0)
    if rest != Fraction(1, 2):
        return floor + (rest > Fraction(1, 2))
    return floor + (floor & 1 if mode == 0 else value > 0)


def square_root(value: Fraction, mode: int, form: Format) -> float:
    """The root, correctly rounded: enough digits and a sticky bit below them."""
    shift = 4 * form.mantissa + 2200
    scaled = value * 4**shift
    root = isqrt(scaled.numerator // scaled.denominator)
    is_exact = root * root == scaled
    digits = Fraction(root, 2**shift)
    return round_to(digits if is_exact else digits + Fraction(1, 2 ** (shift + 2)), mode, form)
