"""Finds the source line of an instruction's address in the DWARF line table of an ELF file."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from elftools.elf.elffile import ELFFile

MAX_BYTES = 4 << 20
"""Maximum size of a file whose lines are read, because reading larger files would take long."""


def source_line(elf: bytes, pc: int, file: str) -> int | None:
    """Line of `file` whose code holds address `pc`, or None (other file, no debug information)."""
    return source_lines(elf, [pc], file)[0]


def source_lines(elf: bytes, pcs: Sequence[int], file: str) -> list[int | None]:
    """The line of each address, or None."""
    table = _table(elf)
    starts = [start for start, _, _, _ in table]
    found: list[int | None] = []
    for pc in pcs:
        position = bisect_right(starts, pc) - 1
        is_known = position >= 0 and pc < table[position][1]
        is_own = is_known and table[position][2] == file
        found.append(table[position][3] if is_own else None)
    return found


@lru_cache(maxsize=2)
def _table(elf: bytes) -> tuple[tuple[int, int, str, int | None], ...]:
    """All ranges by address; empty for a file whose table cannot be read. Asked several times.

    A kernel may write into its own debug information: where reading that fails, whatever it raises,
    nothing is known.
    """
    try:
        if len(elf) > MAX_BYTES:
            return ()
        return tuple(sorted((r for r in _ranges(elf) if r[0] < r[1]), key=lambda r: r[0]))
    except Exception:
        return ()


def _ranges(elf: bytes) -> Iterator[tuple[int, int, str, int | None]]:
    """First and next address, file's name and line of every row of every unit's line table."""
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
    names = [PurePosixPath(entry.name.decode()).name for entry in program.header.file_entry]
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
