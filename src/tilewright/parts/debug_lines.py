"""Finds the source line of an instruction's address in an ELF file's debug information (DWARF).

`source_line` reads the line table. `line_or_call` also finds the line of the call if the
instruction belongs to a function of another file, such as a header, that the compiler inlined.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import PurePosixPath

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
    table = _table(elf)
    starts = [start for start, _, _, _ in table]
    found: list[int | None] = []
    for pc in pcs:
        position = bisect_right(starts, pc) - 1
        is_known = position >= 0 and pc < table[position][1]
        is_own = is_known and table[position][2] == file
        found.append(table[position][3] if is_own else None)
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
def _table(elf: bytes) -> tuple[tuple[int, int, str, int | None], ...]:
    """All ranges by address; empty for a file whose table cannot be read. The result is cached.

    A kernel may write into its own debug information. Whatever exception reading it raises, the
    result is empty.
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
