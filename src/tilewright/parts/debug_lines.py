"""From an instruction's address to the kernel's source line, by the ELF's DWARF line table."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from elftools.common.exceptions import DWARFError, ELFError
from elftools.elf.elffile import ELFFile


def source_line(elf: bytes, pc: int, file: str = "kernel.c") -> int | None:
    """Line of `file` whose code holds address `pc`, or None (other file, no debug information)."""
    return source_lines(elf, [pc], file)[0]


def source_lines(elf: bytes, pcs: Sequence[int], file: str = "kernel.c") -> list[int | None]:
    """The line of each address, or None."""
    found: dict[int, int | None] = {}
    for start, end, name, line in _table(elf):
        for pc in pcs:
            if start <= pc < end:
                found[pc] = line if PurePosixPath(name).name == file else None
    return [found.get(pc) for pc in pcs]


@lru_cache(maxsize=2)
def _table(elf: bytes) -> tuple[tuple[int, int, str, int | None], ...]:
    """All ranges; empty for a file whose table cannot be read. One run asks several times."""
    try:
        return tuple(_ranges(elf))
    except (ELFError, DWARFError):
        return ()


def _ranges(elf: bytes) -> Iterator[tuple[int, int, str, int | None]]:
    """First and next address, file and line of every row of every unit's line table."""
    image = ELFFile(io.BytesIO(elf))
    if not image.has_dwarf_info():
        return
    dwarf = image.get_dwarf_info()
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        if program is not None:
            yield from _rows(program)


def _rows(program) -> Iterator[tuple[int, int, str, int | None]]:  # type: ignore[no-untyped-def]
    # DWARF 5 counts files from 0, earlier versions from 1.
    base = 0 if program.header.version >= 5 else 1
    names = [entry.name.decode() for entry in program.header.file_entry]
    previous, line = None, None
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if previous is not None:
            yield previous.address, state.address, names[previous.file - base], line
        previous = None if state.end_sequence else state
        # Line 0 marks code the compiler made up: it belongs to the line before it.
        line = state.line or line
