"""Writes relocatable ELF files, right ones and others, for tests of what reads them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

WRITE, ALLOC, EXECUTE, MERGE, GROUP, TLS = 1, 2, 4, 0x10, 0x200, 0x400
PROGBITS, SYMTAB, STRTAB, RELA, DYNAMIC, NOTE, NOBITS, REL = 1, 2, 3, 4, 6, 7, 8, 9
INIT_ARRAY, FINI_ARRAY = 14, 15
LOCAL, GLOBAL, WEAK = 0, 1, 2
NO_TYPE, OBJECT, FUNCTION, SECTION_SYMBOL, FILE, COMMON, THREAD_LOCAL, RESOLVED = (*range(7), 10)
X86_64, AARCH64 = 62, 183
ABSOLUTE, COMMON_SECTION = 0xFFF1, 0xFFF2
RETURN = b"\xc3"


@dataclass(frozen=True)
class Part:
    """A section; `relocations` are offset, kind, number of a symbol and addend."""

    name: str
    data: bytes = b""
    flags: int = ALLOC
    kind: int = PROGBITS
    size: int | None = None
    alignment: int = 16
    relocations: Sequence[tuple[int, int, int, int]] = ()


@dataclass(frozen=True)
class Name:
    """A symbol; `section` counts parts from 1, 0 is none."""

    name: str
    section: int = 0
    value: int = 0
    kind: int = NO_TYPE
    binding: int = GLOBAL


TEXT = Part(".text", RETURN * 16, ALLOC | EXECUTE)
KERNEL = Name("kernel", 1, 0, FUNCTION)


@dataclass(frozen=True)
class Written:
    """An object file: parts 1, 2, .. in order, then the tables of relocations, symbols, names."""

    parts: Sequence[Part] = (TEXT,)
    names: Sequence[Name] = (KERNEL,)
    machine: int = X86_64
    kind: int = 1
    bits: int = 2
    order: int = 1
    relocation_kind: int = RELA
    relocation_bytes: int = 24
    more: Sequence[Part] = field(default_factory=tuple)

    def with_parts(self, *parts: Part) -> Written:
        return replace(self, parts=(*self.parts, *parts))

    def with_names(self, *names: Name) -> Written:
        return replace(self, names=(*self.names, *names))

    def bytes(self) -> bytes:
        strings = _Strings()
        symbols = b"".join(
            struct.pack(
                "<IBBHQQ", strings.at(n.name), n.binding << 4 | n.kind, 0, n.section, n.value, 0
            )
            for n in (Name("", binding=LOCAL), *self.names)
        )
        related = [(i, p) for i, p in enumerate(self.parts, 1) if p.relocations]
        symbols_at = 1 + len(self.parts) + len(related)
        headers, contents = [b"\0" * 64], bytearray(64)

        def add(part: Part, link: int = 0, info: int = 0, entry: int = 0) -> None:
            contents.extend(b"\0" * (-len(contents) % 8))
            size = len(part.data) if part.size is None else part.size
            headers.append(
                struct.pack(
                    "<IIQQQQIIQQ", strings.at(part.name), part.kind, part.flags, 0, len(contents),
                    size, link, info, part.alignment, entry,
                )
            )  # fmt: skip
            contents.extend(part.data)

        for part in self.parts:
            add(part)
        for index, part in related:
            entries = b"".join(struct.pack("<QIIq", o, k, s, a) for o, k, s, a in part.relocations)
            table = Part(".rela", entries, 0, self.relocation_kind)
            add(table, symbols_at, index, self.relocation_bytes)
        add(Part(".symtab", symbols, 0, SYMTAB), symbols_at + 1, 1, 24)
        count = len(headers) + 1
        add(Part(".strtab", strings.data, 0, STRTAB))
        head = struct.pack(
            "<4sBBB9xHHIQQQIHHHHHH", b"\x7fELF", self.bits, self.order, 1, self.kind, self.machine,
            1, 0, 0, len(contents), 0, 64, 0, 0, 64, count, count - 1,
        )  # fmt: skip
        contents[:64] = head
        return bytes(contents) + b"".join(headers)


class _Strings:
    def __init__(self) -> None:
        self.data = b"\0"

    def at(self, text: str) -> int:
        where = len(self.data)
        self.data += text.encode() + b"\0"
        return where if text else 0
