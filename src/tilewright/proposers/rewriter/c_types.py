"""Types of C that a kernel may use."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.proposers.rewriter.ir import (
    Array,
)

SIZES: Mapping[str, int] = {
    **dict.fromkeys(("char", "int8_t", "uint8_t", "bool", "_Bool"), 1),
    **dict.fromkeys(("short", "int16_t", "uint16_t"), 2),
    **dict.fromkeys(("int", "unsigned", "int32_t", "uint32_t", "float"), 4),
    **dict.fromkeys(("long", "size_t", "int64_t", "uint64_t", "uintptr_t", "double"), 8),
    **dict.fromkeys(("intptr_t", "ptrdiff_t", "ssize_t", "intmax_t", "uintmax_t"), 8),
    **{f"{sign}int_least{bits}_t": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"{sign}int_fast{bits}_t": 8 for sign in ("", "u") for bits in (16, 32, 64)},
    **{f"{sign}int_fast8_t": 1 for sign in ("", "u")},
}
"""Sizes in bytes of the C types that a kernel may use, on a 64-bit core."""
INTEGER_TYPES = frozenset(SIZES) - {"float", "double"} | {"signed"}


def array_of(name: str, sizes: list[int | None], kind: str) -> Array:
    """An array parameter. Its first size may be unknown (0), as for a pointer."""
    shape = (sizes[0] or 0, *(s for s in sizes[1:] if s)) if sizes else ()
    return Array(name, shape if len(shape) == len(sizes) else (), element_of(kind))


def element_of(kind: str) -> str:
    """The type of the target of a pointer, or of a qualified type."""
    return " ".join(w for w in kind.replace("*", " ").split() if w not in ("const", "restrict"))
