"""The launches of a launcher as its process recorded them, after impossible values were refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.targets.cuda.emulation import Launch

TYPES = {
    "i1": "signed char", "i8": "signed char", "i16": "short", "i32": "int", "i64": "long long",
    "u1": "unsigned char", "u8": "unsigned char", "u16": "unsigned short", "u32": "unsigned",
    "u64": "unsigned long long", "fp32": "float", "fp64": "double",
}  # fmt: skip
"""The C++ types for Triton's types of numbers."""
_MOST_CODE, _MOST_CODES = 16 << 20, 64
MOST_EVENTS = 1000
"""Maximum number of launches and fills of one call."""
MOST_ALLOCATED = 16 << 30
"""Maximum number of bytes of the arrays that a launcher creates."""
_GRID = (2**31 - 1, 65535, 65535)


@dataclass(frozen=True, slots=True)
class Place:
    """An offset in bytes in an array, which is an argument or was created by the launcher."""

    array: int
    offset: int


@dataclass(frozen=True, slots=True)
class Number:
    """A number that is passed to a kernel; `text` is the C++ literal."""

    type: str
    text: str


@dataclass(frozen=True, slots=True)
class Started:
    """A launch of the kernel with the number `code`."""

    code: int
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    given: tuple[Place | Number, ...]
    missing: int
    """Number of pointers at the end of the compiled function's parameters, which are not used."""


@dataclass(frozen=True, slots=True)
class Zeroed:
    """Bytes that are set to zero between launches."""

    at: Place
    size: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """All actions of one call of a launcher, in order.

    `codes` are PTX texts and `names` their functions. `allocated` are the sizes in bytes of the
    arrays that the launcher creates; they are numbered after its arguments.
    """

    codes: tuple[str, ...]
    names: tuple[str, ...]
    events: tuple[Started | Zeroed, ...]
    allocated: tuple[int, ...]
    launches: tuple[Launch, ...]


def read_record(report: Mapping[str, Any], arguments: Sequence[int]) -> Recorded:
    """The record in a report, for arguments of these sizes in bytes. Raises `ValueError` and
    similar exceptions."""
    codes = tuple(_text(code, _MOST_CODE) for code in _few(report["codes"], _MOST_CODES))
    allocated = tuple(_whole(size, 1, MOST_ALLOCATED) for size in _few(report["allocated"]))
    _require(sum(allocated) <= MOST_ALLOCATED, "too much memory")
    sizes = (*arguments, *allocated)
    names = [""] * len(codes)
    events, launches = list[Started | Zeroed](), list[Launch]()
    for said in _few(report["events"]):
        if "zero" in said:
            place = _place(said["zero"], sizes)
            size = _whole(said["bytes"], 1, sizes[place.array] - place.offset)
            events.append(Zeroed(place, size))
            continue
        name = _text(said["launch"], 200)
        _require(re.fullmatch(r"\w+", name, re.ASCII) is not None, "a name")
        code = _whole(said["code"], 0, len(codes) - 1)
        names[code] = name
        given = tuple(_given(part, sizes) for part in _few(said["given"]))
        grid = [_whole(n, 0, most) for n, most in zip(said["grid"], _GRID, strict=True)]
        if 0 in grid:
            continue
        extents = (grid[0], grid[1], grid[2])
        threads, shared = _whole(said["threads"], 1, 1024), _whole(said["shared"], 0, 1 << 20)
        missing = _parameters(codes[code], name) - len(given)
        _require(0 <= missing <= 3, "a number of parameters")
        events.append(Started(code, extents, threads, shared, given, missing))
        line = said["line"]
        launches.append(
            Launch(name, line if isinstance(line, int) else 0, extents, (threads, 1, 1), shared)
        )
    return Recorded(codes, tuple(names), tuple(events), allocated, tuple(launches))


def _parameters(code: str, name: str) -> int:
    """Number of parameters of the function in a PTX text."""
    found = re.search(rf"\.entry {name}\(([^)]*)\)", code)
    _require(found is not None, "a function that the PTX has")
    assert found is not None
    return found[1].count(".param")


def _given(said: Mapping[str, Any], sizes: Sequence[int]) -> Place | Number:
    if "array" in said:
        return _place(said["array"], sizes)
    kind = said["type"]
    _require(kind in TYPES, f"a number of type {str(kind)[:20]}")
    if "real" in said:
        _require(kind in ("fp32", "fp64"), "a number")
        value = float.fromhex(_text(said["real"], 40))
        special = {"inf": "__builtin_inf()", "-inf": "-__builtin_inf()", "nan": '__builtin_nan("")'}
        return Number(kind, special.get(str(value)) or value.hex())
    whole = _whole(said["whole"], -(1 << 63), (1 << 64) - 1)
    if kind in ("fp32", "fp64"):
        return Number(kind, float(whole).hex())
    return Number(kind, f"(long long){whole & (1 << 64) - 1}ULL")


def _place(said: Any, sizes: Sequence[int]) -> Place:
    number, offset = said
    number = _whole(number, 0, len(sizes) - 1)
    return Place(number, _whole(offset, 0, sizes[number] - 1))


def _few(values: Any, most: int = MOST_EVENTS) -> list[Any]:
    _require(isinstance(values, list) and len(values) <= most, "a list")
    return list(values)


def _text(value: Any, most: int) -> str:
    _require(isinstance(value, str) and len(value) <= most, "a text")
    return str(value)


def _whole(value: Any, least: int, most: int) -> int:
    _require(type(value) is int and least <= value <= most, "a number")
    return int(value)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"{what} is not valid")
