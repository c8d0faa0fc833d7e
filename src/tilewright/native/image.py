"""Links a kernel's object file into one image for a fixed address.

No linker or loader of the system is involved. This module writes the image that is mapped, and the
harness only copies the addresses of library functions to a table after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tilewright.native.allowed_calls import mixes_threads, refused_call
from tilewright.native.object_file import (
    ObjectFile,
    Relocation,
    Section,
    Symbol,
    UnfitError,
    read_object,
)
from tilewright.native.relocations import KINDS, Kind, jump_through

BASE = 0x10_0000_0000
"""The address of images, which is between the addresses of a program and those that the system
assigns.
"""
PAGE = 4096
MOST_CALLS = 256
"""Maximum number of library functions that a kernel may use."""
_JUMP = 16
_SLOT = 8


@dataclass(frozen=True, slots=True)
class Image:
    """Code, constants and data, each in complete pages, beginning at `BASE`.

    They are followed by `zeros` bytes of zero and, on separate pages, by a table of the addresses
    of `calls`. `entry` is the address of the kernel, `sections_at` are the addresses of the object
    file's sections, and `calls_at` gives the library function to which the code at an address
    jumps.
    """

    code: bytes
    constants: bytes
    data: bytes
    zeros: int
    calls: tuple[str, ...]
    entry: int
    sections_at: Mapping[int, int]
    calls_at: Mapping[int, str]

    @property
    def contents(self) -> bytes:
        """The bytes of the image without the final zeros."""
        return self.code + self.constants + self.data


@lru_cache(maxsize=4)  # a process is started several times: for the check, and in each session
def linked(data: bytes, threads: int) -> Image:
    """The image of an object file, for a kernel with this number of threads. Raises
    `UnfitError`.
    """
    found = read_object(data)
    for relocation in found.relocations:
        _check(found, relocation, threads)
    return _Linker(found).image()


def _check(found: ObjectFile, relocation: Relocation, threads: int) -> None:
    symbol, kind = relocation.symbol, KINDS[found.machine].get(relocation.kind)
    if symbol.section is None:
        reason = refused_call(symbol.name, threads)
        if reason is not None:
            raise UnfitError(reason)
    if kind is None:
        raise UnfitError(
            f"the kernel contains a relocation of a kind that is not allowed ({relocation.kind})."
        )
    if relocation.offset + kind.width > found.sections[relocation.section].size:
        raise UnfitError("a relocation lies outside its section.")


class _Linker:
    """Assigns an address to every section, and then applies the relocations."""

    def __init__(self, found: ObjectFile) -> None:
        self._found = found
        self._kinds = KINDS[found.machine]
        outside = {r.symbol.name for r in found.relocations if r.symbol.section is None}
        if mixes_threads(outside):
            raise UnfitError(
                "the kernel calls pthread_create and uses OpenMP: use only one of the two."
            )
        if len(outside) > MOST_CALLS:
            raise UnfitError(f"the kernel calls more than {MOST_CALLS} functions of libraries.")
        self._calls = {name: index for index, name in enumerate(sorted(outside))}
        # The address of a kernel's own symbol that is read from memory becomes a constant.
        own = (r.symbol for r in found.relocations if self._kinds[r.kind].by_slot)
        own = (symbol for symbol in own if symbol.section is not None)
        self._constants = {symbol: index for index, symbol in enumerate(dict.fromkeys(own))}
        self._at: dict[int, int] = {}
        end = self._place(BASE, lambda section: section.executable)
        self._jumps_at = _rounded(end, _JUMP)
        self._constants_at = _rounded(self._jumps_at + _JUMP * len(self._calls), PAGE)
        end = self._place(
            self._constants_at, lambda section: not section.executable and not section.writable
        )
        self._slots_at = _rounded(end, _SLOT)
        self._data_at = _rounded(self._slots_at + _SLOT * len(self._constants), PAGE)
        end = self._place(self._data_at, lambda section: section.writable and _is_given(section))
        self._zeros_at = _rounded(end, PAGE)
        end = self._place(self._zeros_at, lambda section: not _is_given(section))
        self._table_at = _rounded(end, PAGE)

    def image(self) -> Image:
        """The whole image, in which only the table of calls is not resolved yet."""
        memory = bytearray(self._zeros_at - BASE)

        def write(address: int, data: bytes) -> None:
            memory[address - BASE : address - BASE + len(data)] = data

        for index, section in self._found.sections.items():
            write(self._at[index], section.data or b"")
        for index in self._calls.values():
            at = self._jumps_at + _JUMP * index
            write(at, jump_through(self._found.machine, at, self._table_at + _SLOT * index))
        for symbol, index in self._constants.items():
            write(self._slots_at + _SLOT * index, self._address(symbol).to_bytes(_SLOT, "little"))
        for relocation in self._found.relocations:
            at, kind = (
                self._at[relocation.section] + relocation.offset,
                self._kinds[relocation.kind],
            )
            there = int.from_bytes(memory[at - BASE : at - BASE + kind.width], "little")
            word = kind.compute(there, self._meant(relocation, kind), at)
            write(at, word.to_bytes(kind.width, "little"))
        constants, data = self._constants_at - BASE, self._data_at - BASE
        return Image(
            code=bytes(memory[:constants]),
            constants=bytes(memory[constants:data]),
            data=bytes(memory[data:]),
            zeros=self._table_at - self._zeros_at,
            calls=tuple(self._calls),
            entry=self._address(self._found.kernel),
            sections_at=self._at,
            calls_at={self._jumps_at + _JUMP * at: name for name, at in self._calls.items()},
        )

    def _place(self, address: int, chosen: Callable[[Section], bool]) -> int:
        """Assign addresses to the chosen sections, beginning with the given address, and return the
        end.
        """
        for index, section in self._found.sections.items():
            if index not in self._at and chosen(section):
                self._at[index] = _rounded(address, section.alignment)
                address = self._at[index] + section.size
        return address

    def _address(self, symbol: Symbol) -> int:
        """The address of a symbol of the kernel, or of the jump to a function of a library."""
        if symbol.section is None:
            return self._jumps_at + _JUMP * self._calls[symbol.name]
        return self._at[symbol.section] + symbol.offset

    def _meant(self, relocation: Relocation, kind: Kind) -> int:
        symbol = relocation.symbol
        if not kind.by_slot:
            return self._address(symbol) + relocation.addend
        if symbol.section is None:
            return self._table_at + _SLOT * self._calls[symbol.name] + relocation.addend
        return self._slots_at + _SLOT * self._constants[symbol] + relocation.addend


def _is_given(section: Section) -> bool:
    return section.data is not None


def _rounded(address: int, unit: int) -> int:
    return -(-address // unit) * unit
