"""Finds the source line of an instruction's address in an ELF file's debug information (DWARF).

`source_line` and `source_places` read the line table. `line_or_call` also finds the line of the
call if the instruction belongs to a function of another file, such as a header, that the compiler
inlined.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import NamedTuple

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.dwarf.ranges import BaseAddressEntry
from elftools.elf.elffile import ELFFile

MAX_BYTES = 4 << 20
"""Maximum size of a file whose lines are read, because reading larger files would take long."""


def source_line(elf: bytes, pc: int, file: str) -> int | None:
    """The line of `file` to which the code at address `pc` belongs, or None (other file, no debug
    information).
    """
    return source_lines(elf, [pc], file)[0]


def source_lines(elf: bytes, pcs: Sequence[int], file: str) -> list[int | None]:
    """The line of each address, or None."""
    return [row.line if row else None for row in _rows_of(elf, pcs, file)]


def source_places(elf: bytes, pcs: Sequence[int], file: str) -> list[tuple[int, int] | None]:
    """The line and column of each address, both from 1, or None if one of them is unknown."""
    return [
        (row.line, row.column) if row and row.line and row.column else None
        for row in _rows_of(elf, pcs, file)
    ]


class _Row(NamedTuple):
    """A row of a line table: first and next address, file's name, line, and column or 0."""

    start: int
    end: int
    file: str
    line: int | None
    column: int


def _rows_of(elf: bytes, pcs: Sequence[int], file: str) -> list[_Row | None]:
    table = _table(elf)
    starts = [row.start for row in table]
    found: list[_Row | None] = []
    for pc in pcs:
        position = bisect_right(starts, pc) - 1
        is_known = position >= 0 and pc < table[position].end
        is_own = is_known and table[position].file == file
        found.append(table[position] if is_own else None)
    return found


def line_or_call(elf: bytes, pc: int, file: str) -> int | None:
    """The line of `file` to which the code at address `pc` belongs. If the code belongs to an
    inlined function of another file, the line of `file` that calls it. None if neither is known.
    """
    own = source_line(elf, pc, file)
    if own is not None or len(elf) > MAX_BYTES:
        return own
    try:
        dwarf = ELFFile(io.BytesIO(elf)).get_dwarf_info()
        calls = [call for unit in dwarf.iter_CUs() for call in _calls(dwarf, unit, pc)]
    except Exception:  # a kernel may write into its own debug information
        return None
    return next((line for name, line in reversed(calls) if name == file), None)


@lru_cache(maxsize=2)
def _table(elf: bytes) -> tuple[_Row, ...]:
    """All ranges by address; empty for a file whose table cannot be read. The result is cached.

    A kernel may write into its own debug information. Whatever exception reading it raises, the
    result is empty.
    """
    try:
        if len(elf) > MAX_BYTES:
            return ()
        return tuple(sorted((r for r in _ranges(elf) if r.start < r.end), key=lambda r: r.start))
    except Exception:
        return ()


def _ranges(elf: bytes) -> Iterator[_Row]:
    """Every row of every unit's line table."""
    image = ELFFile(io.BytesIO(elf))
    if not image.has_dwarf_info():
        return
    dwarf = image.get_dwarf_info()
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        if program is not None:
            yield from _rows(program)


def _rows(program) -> Iterator[_Row]:  # type: ignore[no-untyped-def]
    # DWARF 5 counts files from 0, earlier versions from 1.
    base = 0 if program.header.version >= 5 else 1
    names = [PurePosixPath(entry.name.decode()).name for entry in program.header.file_entry]
    previous, line = None, None
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if previous is not None:
            name = names[previous.file - base]
            column = previous.column if previous.line else 0
            yield _Row(previous.address, state.address, name, line, column)
        previous = None if state.end_sequence else state
        # Line 0 marks code without a source line, which belongs to the preceding line.
        line = state.line or line


_SCOPES = (
    "DW_TAG_namespace", "DW_TAG_subprogram", "DW_TAG_lexical_block", "DW_TAG_inlined_subroutine",
)  # fmt: skip


def _calls(dwarf: DWARFInfo, unit: CompileUnit, pc: int) -> Iterator[tuple[str, int]]:
    """File and line of every inlined call around an address, the outermost first."""
    names = list[str]()
    at, scopes = 0, [unit.get_top_DIE()]
    while at < len(scopes):
        for die in scopes[at].iter_children():
            if die.tag == "DW_TAG_namespace":
                scopes.append(die)
            elif die.tag in _SCOPES and _covers(dwarf, unit, die, pc):
                scopes.append(die)
                if die.tag == "DW_TAG_inlined_subroutine":
                    names = names or _file_names(dwarf, unit)
                    call = die.attributes
                    yield names[call["DW_AT_call_file"].value], call["DW_AT_call_line"].value
        at += 1


def _covers(dwarf: DWARFInfo, unit: CompileUnit, die: DIE, pc: int) -> bool:
    low, high = die.attributes.get("DW_AT_low_pc"), die.attributes.get("DW_AT_high_pc")
    if low is not None and high is not None:
        is_address = high.form == "DW_FORM_addr"
        return bool(low.value <= pc < (high.value if is_address else low.value + high.value))
    several, lists = die.attributes.get("DW_AT_ranges"), dwarf.range_lists()
    if several is None or lists is None:
        return False
    base = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
    start = base.value if base is not None else 0
    for entry in lists.get_range_list_at_offset(several.value, cu=unit):
        if isinstance(entry, BaseAddressEntry):
            start = entry.base_address
            continue
        shift = 0 if entry.is_absolute else start
        if entry.begin_offset + shift <= pc < entry.end_offset + shift:
            return True
    return False


def _file_names(dwarf: DWARFInfo, unit: CompileUnit) -> list[str]:
    """The names of files by the numbers that the entries (DIEs) of the unit use."""
    program = dwarf.line_program_for_CU(unit)
    if program is None:
        return []
    names = [PurePosixPath(entry.name.decode()).name for entry in program.header.file_entry]
    return names if program.header.version >= 5 else ["", *names]
