"""Names the variable of a compiled kernel at an address."""

from __future__ import annotations

import io
import re

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

_LENGTH = re.compile(r"\d+")


def variable_at(elf: bytes, address: int) -> str:
    """The variable in the eight bytes at an address; empty if none is found."""
    try:
        table = ELFFile(io.BytesIO(elf)).get_section_by_name(".symtab")
        symbols = list(table.iter_symbols()) if isinstance(table, SymbolTableSection) else []
    except (ELFError, UnicodeDecodeError, ValueError):
        return ""
    for symbol in symbols:
        start, is_object = symbol["st_value"], symbol["st_info"]["type"] == "STT_OBJECT"
        if is_object and start < address + 8 and address < start + symbol["st_size"]:
            return plain(symbol.name)
    return ""


def plain(symbol: str) -> str:
    """The name that the source gives to a variable, without its namespaces and functions.

    >>> plain("_ZN12_GLOBAL__N_15callsE")
    'calls'
    """
    name, at = symbol, 0
    while symbol.startswith("_Z") and (length := _LENGTH.search(symbol, at)):
        at = length.end() + int(length[0])
        if at <= len(symbol):
            name = symbol[length.end() : at]
    return name
