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

_LIMITS: Mapping[str, Mapping[str, str]] = {
    "float.h": {
        "FLT_MAX": "3.40282347e+38F", "FLT_MIN": "1.17549435e-38F",
        "FLT_EPSILON": "1.19209290e-7F", "DBL_MAX": "1.7976931348623157e+308",
        "DBL_MIN": "2.2250738585072014e-308", "DBL_EPSILON": "2.2204460492503131e-16",
    },
    "limits.h": {
        "SCHAR_MIN": "(-128)", "SCHAR_MAX": "127", "UCHAR_MAX": "255", "SHRT_MIN": "(-32768)",
        "SHRT_MAX": "32767", "USHRT_MAX": "65535", "INT_MIN": "(-2147483647-1)",
        "INT_MAX": "2147483647",
    },
    "stdint.h": {
        "INT8_MIN": "(-128)", "INT8_MAX": "127", "UINT8_MAX": "255", "INT16_MIN": "(-32768)",
        "INT16_MAX": "32767", "UINT16_MAX": "65535", "INT32_MIN": "(-2147483647-1)",
        "INT32_MAX": "2147483647",
    },
    "math.h": {
        "M_PI": "3.14159265358979323846", "M_PI_2": "1.57079632679489661923",
        "M_PI_4": "0.78539816339744830962", "M_1_PI": "0.31830988618379067154",
        "M_2_PI": "0.63661977236758134308", "M_2_SQRTPI": "1.12837916709551257390",
        "M_SQRT2": "1.41421356237309504880", "M_SQRT1_2": "0.70710678118654752440",
        "M_E": "2.71828182845904523536", "M_LOG2E": "1.44269504088896340736",
        "M_LOG10E": "0.43429448190325182765", "M_LN2": "0.69314718055994530942",
        "M_LN10": "2.30258509299404568402",
    },
}  # fmt: skip
"""Macros of headers: the limits of number types, and the constants of math.h."""

_RANKS = ("int", "uint32_t", "int64_t", "uint64_t", "float", "double", "vector")


def limits(source: str) -> list[str]:
    """The macros for numbers that a source includes, in the form of `#define`."""
    return [
        f"{name} {value}"
        for header, macros in _LIMITS.items()
        if f"<{header}>" in source
        for name, value in macros.items()
    ]


def is_whole(kind: str) -> bool:
    """Whether a type is an integer type."""
    return kind in RANGES


def promoted(kind: Type) -> Type:
    """The type to which a value is promoted in arithmetic."""
    return kind if kind in _RANKS else "int"


def common(left: Type, right: Type) -> Type:
    """The type of arithmetic on two values."""
    return max(promoted(left), promoted(right), key=_RANKS.index)
