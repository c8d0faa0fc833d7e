"""Names and ranges of C's number types, and the results of its usual arithmetic conversions."""

from __future__ import annotations

import platform
from collections.abc import Mapping

from tilewright.proposers.loops.ir import Type

_CHAR: Type = "int8_t" if platform.machine() in ("x86_64", "AMD64", "i686") else "uint8_t"
"""The type char, which is signed on some processors."""

NAMES: Mapping[str, Type] = {
    "int": "int", "signed int": "int", "signed": "int", "float": "float", "double": "double",
    "short": "int16_t", "unsigned short": "uint16_t",
    "char": _CHAR, "signed char": "int8_t", "unsigned char": "uint8_t",
    "unsigned": "uint32_t", "unsigned int": "uint32_t", "uint": "uint32_t",
    "long": "int64_t", "long int": "int64_t", "long long": "int64_t", "ssize_t": "int64_t",
    "long long int": "int64_t", "ptrdiff_t": "int64_t", "intptr_t": "int64_t",
    "unsigned long": "uint64_t", "unsigned long long": "uint64_t", "size_t": "uint64_t",
    "uintptr_t": "uint64_t",
    "int8_t": "int8_t", "uint8_t": "uint8_t", "int16_t": "int16_t", "uint16_t": "uint16_t",
    "int32_t": "int32_t", "uint32_t": "uint32_t", "int64_t": "int64_t", "uint64_t": "uint64_t",
    "int_fast32_t": "int64_t", "uint_fast32_t": "uint64_t", "int_fast8_t": "int8_t",
    "uint_fast8_t": "uint8_t", "int_fast16_t": "int64_t", "uint_fast16_t": "uint64_t",
    "int_least32_t": "int32_t", "uint_least32_t": "uint32_t",
    "bool": "_Bool", "_Bool": "_Bool",
}  # fmt: skip
"""Each name of a type with the name that is printed. Sizes are those of 64-bit Linux."""

RANGES: Mapping[str, tuple[int, int]] = {
    "int": (-(1 << 31), (1 << 31) - 1),
    "_Bool": (0, 1),
    **{f"int{n}_t": (-(1 << n - 1), (1 << n - 1) - 1) for n in (8, 16, 32, 64)},
    **{f"uint{n}_t": (0, (1 << n) - 1) for n in (8, 16, 32, 64)},
}
"""The smallest and largest value of each integer type."""

BYTES: Mapping[str, int] = {
    "_Bool": 1, "int8_t": 1, "uint8_t": 1, "int16_t": 2, "uint16_t": 2, "int64_t": 8, "uint64_t": 8,
    "double": 8,
}  # fmt: skip
"""The sizes in bytes of types whose size is not 4."""

_RANKS = ("int", "uint32_t", "int64_t", "uint64_t", "float", "double", "vector")


def is_whole(kind: str) -> bool:
    """Whether a type is an integer type."""
    return kind in RANGES


def promoted(kind: Type) -> Type:
    """The type to which a value is promoted in arithmetic."""
    return kind if kind in _RANKS else "int"


def common(left: Type, right: Type) -> Type:
    """The type of arithmetic on two values."""
    return max(promoted(left), promoted(right), key=_RANKS.index)
