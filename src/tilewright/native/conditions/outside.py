"""What functions outside a kernel read and return, as far as this matters for a dependence on
data."""

from __future__ import annotations

import re

from tilewright.native.allowed_calls import MATHEMATICS

_OF_NUMBERS = re.compile(rf"(?:_ZGV([bcde])[NM]\d+v+_)?({'|'.join(MATHEMATICS)})f?")
_OF_TWO = {"pow", "atan2", "fmax", "fmin", "fmod", "hypot", "copysign"}
_OF_EXPONENT = {"ldexp", "scalbn"}
_VECTORS = {"b": ("%xmm0", 16), "c": ("%ymm0", 32), "d": ("%ymm0", 32), "e": ("%zmm0", 64)}
_RETURNS_WHOLE = re.compile(r"l(?:rint|round)f?|__\w+(?:[td]i[234]|[sd]fti)")
"""Those with other names belong to the compiler's library."""


def arguments_of_number(name: str) -> frozenset[str] | None:
    """The registers with the arguments of a mathematical function, whose result depends on nothing
    else; None for other functions."""
    found = _OF_NUMBERS.fullmatch(name)
    if found is None:
        return None
    count = 3 if found[2] == "fma" else 2 if found[2] in _OF_TWO else 1
    whole = {"di"} if found[2] in _OF_EXPONENT else set()
    masks = {f"v{n}" for n in range(count, 8)} if found[1] and "M" in name else set()
    return frozenset({f"v{n}" for n in range(count)} | whole | masks)


def whole_result(name: str) -> list[tuple[str, int]]:
    """The register with the whole number that a function returns, and its size in bytes, if it
    returns one."""
    return [("%rax", 8)] if _RETURNS_WHOLE.fullmatch(name) else []


def float_result(name: str) -> list[tuple[str, int]]:
    """The same for the floating-point numbers that a mathematical function returns."""
    found = _OF_NUMBERS.fullmatch(name)
    if found is None or whole_result(name):
        return []
    return [_VECTORS[found[1]] if found[1] else ("%xmm0", 4 if name.endswith("f") else 8)]
