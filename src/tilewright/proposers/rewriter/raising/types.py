"""C types of a kernel, with the sizes that are needed to compute addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Number:
    """An integer or floating-point type with a size in bytes."""

    bytes: int
    signed: bool = True
    floating: bool = False

    @property
    def name(self) -> str:
        """How C writes it."""
        if self.floating:
            return "float" if self.bytes == 4 else "double"
        return f"{'' if self.signed else 'u'}int{8 * self.bytes}_t"


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer. Its target type is unknown if `to` is None."""

    to: Type | None


@dataclass(frozen=True, slots=True)
class Elements:
    """An array; `count` is 0 if it is not given."""

    of: Type
    count: int


@dataclass(frozen=True, slots=True)
class Structure:
    """A structure: name, type and byte offset of each field."""

    fields: tuple[tuple[str, Type, int], ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Callee:
    """A function that is called through a pointer."""

    parameters: tuple[Type, ...]
    result: Type | None


Type: TypeAlias = "Number | Pointer | Elements | Structure | Callee"

INT, UNSIGNED = Number(4), Number(4, signed=False)
LONG, UNSIGNED_LONG = Number(8), Number(8, signed=False)
FLOAT, DOUBLE = Number(4, floating=True), Number(8, floating=True)


def _fixed() -> dict[str, Type]:
    found: dict[str, Type] = {}
    for bits in (8, 16, 32, 64):
        for signed in (True, False):
            fast = 8 if bits > 8 else 1
            stem = "int" if signed else "uint"
            found[f"{stem}{bits}_t"] = Number(bits // 8, signed)
            found[f"{stem}_least{bits}_t"] = Number(bits // 8, signed)
            found[f"{stem}_fast{bits}_t"] = Number(fast, signed)
    return found


NAMED: Mapping[str, Type] = {
    **_fixed(),
    "intptr_t": LONG, "uintptr_t": UNSIGNED_LONG, "intmax_t": LONG, "uintmax_t": UNSIGNED_LONG,
    "size_t": UNSIGNED_LONG, "ssize_t": LONG, "ptrdiff_t": LONG,
    "bool": Number(1, signed=False), "_Bool": Number(1, signed=False),
    "float": FLOAT, "double": DOUBLE, "char": Number(1, signed=False),
}  # fmt: skip
"""Types with a single name, on a 64-bit RISC-V core (on which char is unsigned)."""


def of_words(words: list[str]) -> Number | None:
    """A type that is written as several words, such as `unsigned long`."""
    known = {"signed", "unsigned", "short", "int", "long", "char"}
    if not words or not set(words) <= known:
        return None
    if "char" in words:
        return Number(1, "signed" in words)
    size = 2 if "short" in words else 8 if "long" in words else 4
    return Number(size, "unsigned" not in words)


def size_of(kind: Type) -> int:
    """The size of a value in bytes."""
    match kind:
        case Number(size):
            return size
        case Pointer():
            return 8
        case Elements(of, count):
            return size_of(of) * count
        case Structure(_, size):
            return size
        case Callee():
            return 1


def alignment(kind: Type) -> int:
    """The alignment of a value in bytes."""
    match kind:
        case Elements(of, _):
            return alignment(of)
        case Structure(fields, _):
            return max((alignment(f) for _, f, _ in fields), default=1)
    return size_of(kind)


def structure(fields: list[tuple[str, Type]]) -> Structure:
    """The layout of a structure."""
    at, placed = 0, []
    for name, kind in fields:
        step = alignment(kind)
        at = -(-at // step) * step
        placed.append((name, kind, at))
        at += size_of(kind)
    step = max((alignment(k) for _, k in fields), default=1)
    return Structure(tuple(placed), -(-at // step) * step)


def common(left: Number, right: Number) -> Number:
    """The type of `left + right` (the usual arithmetic conversions)."""
    if left.floating or right.floating:
        return max((k for k in (left, right) if k.floating), key=lambda k: k.bytes)
    left, right = promoted(left), promoted(right)
    if left.bytes != right.bytes:
        return left if left.bytes > right.bytes else right
    return left if not left.signed else right


def promoted(kind: Number) -> Number:
    """Integers narrower than int become int."""
    return INT if not kind.floating and kind.bytes < INT.bytes else kind
