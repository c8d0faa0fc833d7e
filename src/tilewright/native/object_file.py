"""Reads a kernel's relocatable ELF file, and refuses everything that an honest kernel does not
need.

The file is untrusted. Only allowed sections, symbols and relocations are accepted, and references
outside the file are refused. Format: System V ABI, chapters 4 and 5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MAX_BYTES = 64 << 20
"""Maximum size of an object file, and of the contents of its sections."""
MAX_MEMORY = 1 << 30
"""Maximum total size of a kernel's code, constants and static arrays."""
MAX_ALIGNMENT = 2 << 20
_MOST_ENTRIES = 1 << 17
"""Maximum number of entries of a symbol table, and of all relocations, because each is examined."""

MACHINES = {62: "x86_64", 183: "aarch64"}
_HEADER = np.dtype([
    ("magic", "S4"), ("bits", "u1"), ("order", "u1"), ("version", "u1"), ("rest", "V9"),
    ("type", "<u2"), ("machine", "<u2"), ("more", "V20"), ("sections_at", "<u8"), ("flags", "<u4"),
    ("header_bytes", "<u2"), ("segment_bytes", "<u2"), ("segments", "<u2"),
    ("section_bytes", "<u2"), ("sections", "<u2"), ("names", "<u2"),
])  # fmt: skip
_SECTION = np.dtype([
    ("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("offset", "<u8"),
    ("size", "<u8"), ("link", "<u4"), ("info", "<u4"), ("alignment", "<u8"), ("entry", "<u8"),
])  # fmt: skip
_SYMBOL = np.dtype([
    ("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"),
    ("size", "<u8"),
])  # fmt: skip
_RELOCATION = np.dtype([("offset", "<u8"), ("kind", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])

_PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOTE, _NOBITS, _REL = 1, 2, 3, 4, 7, 8, 9
# Pointers to initialisers, to finalisers, and to initialisers that run before all others.
_ARRAYS = {14, 15, 16}
_UNWIND = 0x7000_0001  # the type of .eh_frame on x86-64
_WRITE, _ALLOC, _EXECUTE, _MERGE, _STRINGS = 1, 2, 4, 0x10, 0x20
_TLS = 0x400
_KNOWN_FLAGS = _WRITE | _ALLOC | _EXECUTE | _MERGE | _STRINGS
_NAMES = re.compile(r"\.(text|rodata|data|bss)(\.[\w.$-]*)?", re.ASCII)
_LEFT_OUT = re.compile(r"\.(eh_frame|note\.[\w.-]+)", re.ASCII)
"""Sections that only debuggers and unwinders read. They are not part of the image."""
_RUNS_ALONE = re.compile(r"\.(preinit_array|init_array|fini_array|init|fini|ctors|dtors)\b.*")
_LOCAL, _GLOBAL, _WEAK = 0, 1, 2
_NO_TYPE, _OBJECT, _FUNCTION, _SECTION_SYMBOL, _FILE, _COMMON, _THREAD_LOCAL = range(7)
_RESOLVED = 10  # a function that selects another one
_UNDEFINED, _ABSOLUTE, _COMMON_SECTION = 0, 0xFFF1, 0xFFF2

Table = NDArray[np.void]


class UnfitError(Exception):
    """The file is not a valid kernel; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the image: `data`, or `size` zero bytes if `data` is None."""

    data: bytes | None
    size: int
    alignment: int
    writable: bool
    executable: bool


@dataclass(frozen=True, slots=True)
class Symbol:
    """A position in a section, or a library function if `section` is None."""

    name: str
    section: int | None
    offset: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """A relocation of `kind` at `offset` of `section`, with the value `symbol` + `addend`."""

    section: int
    offset: int
    kind: int
    symbol: Symbol
    addend: int


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """The parts of a kernel's image; `kernel` is the function that is called."""

    machine: str
    sections: Mapping[int, Section]
    relocations: tuple[Relocation, ...]
    kernel: Symbol


def read_object(data: bytes) -> ObjectFile:
    """The kernel in a relocatable file; `UnfitError` if the file contains anything that is not
    allowed.
    """
    try:
        return _Reader(data).read()
    except (ValueError, IndexError, OverflowError) as error:
        raise UnfitError(f"the compiler's output cannot be read ({error}).") from error


def with_addresses(data: bytes, at: Mapping[int, int]) -> bytes:
    """The object file with its sections at these addresses, for its debug information."""
    reader = _Reader(data)
    changed = bytearray(data)
    for header in reader.headers:
        if header["type"] == _SYMTAB:
            symbols = reader.entries(header, _SYMBOL).copy()
            for index, section in enumerate(symbols["section"].tolist()):
                symbols["value"][index] += np.uint64(at.get(section, 0))
            start = int(header["offset"])
            changed[start : start + symbols.nbytes] = symbols.tobytes()
    return bytes(changed)


class _Reader:
    def __init__(self, data: bytes) -> None:
        if len(data) > MAX_BYTES:
            raise UnfitError(f"the compiler's output is larger than {MAX_BYTES >> 20} MiB.")
        self._data = data
        header = self._table(_HEADER, 0, 1)[0]
        machine = MACHINES.get(int(header["machine"]))
        usual = bytes(header["magic"]) == b"\x7fELF" and header["bits"] == 2
        little = header["order"] == 1 and header["section_bytes"] == _SECTION.itemsize
        if not (usual and little and header["type"] == 1 and machine):
            raise UnfitError("the compiler's output is not a relocatable 64-bit ELF file.")
        self._machine = machine
        self.headers = self._table(_SECTION, int(header["sections_at"]), int(header["sections"]))
        self._names = self._strings(int(header["names"]))

    def read(self) -> ObjectFile:
        sections: dict[int, Section] = {}
        tables: list[int] = []
        left_out: set[int] = set()
        for index, found in enumerate(self.headers):
            if found["type"] == _SYMTAB:
                tables.append(index)
            if int(found["flags"]) & _ALLOC:
                name = self._text(self._names, int(found["name"]))
                if _LEFT_OUT.fullmatch(name) and found["type"] in (_PROGBITS, _NOTE, _UNWIND):
                    left_out.add(index)
                else:
                    sections[index] = self._section(found, name)
        if len(tables) != 1:
            raise UnfitError("the compiler's output does not have exactly one symbol table.")
        _check_sizes(sections)
        symbols = self._symbols(tables[0], sections, left_out)
        relocations = self._relocations(tables[0], sections, symbols)
        entries = [s for s in symbols.values() if s.name == "kernel" and s.section is not None]
        entry = entries[0] if len(entries) == 1 else None
        if entry is None or entry.section is None or not sections[entry.section].executable:
            raise UnfitError("the source defines no (non-static) function named kernel.")
        return ObjectFile(self._machine, sections, relocations, entry)

    def _section(self, found: np.void, name: str) -> Section:
        kind, flags = int(found["type"]), int(found["flags"])
        if kind in _ARRAYS or _RUNS_ALONE.fullmatch(name):
            raise UnfitError(
                "the kernel has code that would run before it is called, or after its last call "
                "(constructors, destructors or their tables)."
            )
        if flags & _TLS:
            raise UnfitError(
                "the kernel has thread-local variables, which are not allowed. Use arrays that "
                "threads index by their number."
            )
        writable, executable = bool(flags & _WRITE), bool(flags & _EXECUTE)
        alignment, size = max(1, int(found["alignment"])), int(found["size"])
        known = _NAMES.fullmatch(name) and kind in (_PROGBITS, _NOBITS)
        known = known and not flags & ~_KNOWN_FLAGS and not (writable and executable)
        if not known or (kind == _NOBITS and executable):
            raise UnfitError(
                f"the kernel has a section {name!r} that is not allowed: only .text, .rodata, "
                ".data, .bss and their subsections (such as .rodata.mine) are."
            )
        if alignment & (alignment - 1) or alignment > MAX_ALIGNMENT:
            raise UnfitError(
                f"the kernel requests an alignment of {alignment} bytes: powers of two up to "
                f"{MAX_ALIGNMENT} are possible."
            )
        data = None if kind == _NOBITS else self._bytes(int(found["offset"]), size)
        return Section(data, size, alignment, writable, executable)

    def _symbols(
        self, table: int, sections: Mapping[int, Section], left_out: set[int]
    ) -> dict[int, Symbol]:
        """The symbols that are in the image or in libraries, by number."""
        header = self.headers[table]
        found = self.entries(header, _SYMBOL)
        if len(found) > _MOST_ENTRIES:
            raise UnfitError(f"the kernel has more than {_MOST_ENTRIES} symbols.")
        names = self._strings(int(header["link"]))
        symbols: dict[int, Symbol] = {}
        for index, (name_at, info, _, where, value, _) in enumerate(found.tolist()):
            kind, binding = info & 15, info >> 4
            if index == 0 or (kind == _FILE and binding == _LOCAL):
                continue
            name = "" if kind == _SECTION_SYMBOL else self._text(names, name_at)
            if kind == _RESOLVED:
                raise UnfitError(
                    f"the kernel has code that would run before it is called (a resolver, {name})."
                )
            if kind == _THREAD_LOCAL:
                raise UnfitError(f"the kernel's {name} is thread-local, which is not allowed.")
            known = kind in (_NO_TYPE, _OBJECT, _FUNCTION, _SECTION_SYMBOL)
            if not known or binding not in (_LOCAL, _GLOBAL, _WEAK):
                raise UnfitError(f"the kernel has a symbol {name!r} of a kind that is not allowed.")
            if where == _UNDEFINED and binding != _LOCAL and name:
                symbols[index] = Symbol(name, None, 0)
            elif where in sections:
                if value > sections[where].size:
                    raise UnfitError(f"the symbol {name!r} lies after its section.")
                # Only names that are visible outside the file are used, because a static function
                # may also have the name kernel.
                visible = binding != _LOCAL and kind == _FUNCTION
                symbols[index] = Symbol(name if visible else "", where, value)
            elif where in (_ABSOLUTE, _COMMON_SECTION) or where >= len(self.headers):
                raise UnfitError(f"the symbol {name!r} lies in no section.")
            elif where not in left_out and int(self.headers[where]["flags"]) & _ALLOC:
                raise UnfitError(f"the symbol {name!r} lies in no known section.")
        return symbols

    def _relocations(
        self, table: int, sections: Mapping[int, Section], symbols: Mapping[int, Symbol]
    ) -> tuple[Relocation, ...]:
        """The relocations of sections that become part of the image."""
        read: list[Relocation] = []
        for header in self.headers:
            kind, target = int(header["type"]), int(header["info"])
            if kind not in (_RELA, _REL) or target not in sections:
                continue
            section = sections[target]
            if kind == _REL or int(header["link"]) != table or section.data is None:
                raise UnfitError("the kernel has relocations of a form that is not allowed.")
            found = self.entries(header, _RELOCATION)
            if len(read) + len(found) > _MOST_ENTRIES:
                raise UnfitError(f"the kernel has more than {_MOST_ENTRIES} relocations.")
            for offset, number, symbol, addend in found.tolist():
                if symbol not in symbols:
                    raise UnfitError("a relocation refers to something outside the kernel.")
                read.append(Relocation(target, offset, number, symbols[symbol], addend))
        return tuple(read)

    def entries(self, header: np.void, kind: np.dtype[np.void]) -> Table:
        size, entry = int(header["size"]), int(header["entry"])
        if entry != kind.itemsize or size % entry:
            raise UnfitError("the compiler's output has a table of an unexpected form.")
        return self._table(kind, int(header["offset"]), size // entry)

    def _table(self, kind: np.dtype[np.void], offset: int, count: int) -> Table:
        return np.frombuffer(self._bytes(offset, count * kind.itemsize), kind)

    def _strings(self, index: int) -> bytes:
        header = self.headers[index]
        if header["type"] != _STRTAB:
            raise UnfitError("the compiler's output refers to names that do not exist.")
        return self._bytes(int(header["offset"]), int(header["size"]))

    def _text(self, strings: bytes, offset: int) -> str:
        end = strings.index(b"\0", offset)
        return strings[offset:end].decode(errors="replace")

    def _bytes(self, offset: int, size: int) -> bytes:
        if offset + size > len(self._data):
            raise UnfitError("the compiler's output is truncated.")
        return self._data[offset : offset + size]


def _check_sizes(sections: Mapping[int, Section]) -> None:
    """Check the sizes of sections, and also their sum, because sections may overlap in the file."""
    held = sum(section.size for section in sections.values() if section.data is not None)
    if held > MAX_BYTES:
        raise UnfitError(f"the kernel's code and constants exceed {MAX_BYTES >> 20} MiB.")
    whole = sum(section.size + section.alignment for section in sections.values())
    if whole > MAX_MEMORY:
        raise UnfitError(
            f"the kernel's static arrays take {whole >> 20} MiB: at most {MAX_MEMORY >> 20} MiB "
            "are allowed."
        )
