"""From an instruction's address to the kernel's source line, by the ELF's DWARF line table."""

from __future__ import annotations

import io
from pathlib import PurePosixPath

from elftools.common.exceptions import DWARFError, ELFError
from elftools.elf.elffile import ELFFile


def source_line(elf: bytes, pc: int, file: str = "kernel.c") -> int | None:
    """Line of `file` whose code holds address `pc`, or None (other file, no debug information)."""
    try:
        image = ELFFile(io.BytesIO(elf))
        if not image.has_dwarf_info():
            return None
        dwarf = image.get_dwarf_info()
        for unit in dwarf.iter_CUs():
            line = _line_in_unit(dwarf.line_program_for_CU(unit), pc, file)
            if line is not None:
                return line
    except (ELFError, DWARFError):
        return None
    return None


def _line_in_unit(program, pc: int, file: str) -> int | None:  # type: ignore[no-untyped-def]
    """The row that begins at or before `pc` and whose successor begins after it."""
    if program is None:
        return None
    # DWARF 5 counts files from 0, earlier versions from 1.
    base = 0 if program.header.version >= 5 else 1
    names = [entry.name.decode() for entry in program.header.file_entry]
    previous, line = None, None
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if previous is not None and previous.address <= pc < state.address:
            name = names[previous.file - base]
            return line if PurePosixPath(name).name == file else None
        previous = None if state.end_sequence else state
        # Line 0 marks code the compiler made up: it belongs to the line before it.
        line = state.line or line
    return None
