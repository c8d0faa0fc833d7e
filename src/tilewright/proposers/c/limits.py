"""Macros for numbers that headers of C define."""

from __future__ import annotations

from collections.abc import Mapping

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


def limits(source: str, always: tuple[str, ...] = ()) -> list[str]:
    """The macros for numbers of the headers that a source includes, in the form of `#define`.

    `always` are headers that are included even if the source does not name them.
    """
    return [
        f"{name} {value}"
        for header, macros in _LIMITS.items()
        if header in always or f"<{header}>" in source
        for name, value in macros.items()
    ]
