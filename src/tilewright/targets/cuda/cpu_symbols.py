"""The rules for the names in a kernel's object file, before it is linked to a program for the CPU.

A kernel may call only its own functions and those in a list. With C linkage, it may not define a
name that the emulator or a library defines, because the program would use the kernel's function in
place of the other one.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Container, Sequence

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Symbol, SymbolTableSection

from tilewright.core.records import Failed
from tilewright.native.allowed_calls import refused_call

_OWN_CALLS = re.compile(
    r"tw_(?!call)\w+|threadIdx|blockIdx|blockDim|gridDim|__[at]san_\w+|__ubsan_handle_\w+|__(?:start|stop)_tw_shared|"
    r"_GLOBAL_OFFSET_TABLE_|exp10f?|erfc?f|nearbyint|__cxa_atexit|__dso_handle|__(?:eq|ne)hf2"
)
_VARIABLES = re.compile(r"(\.data|\.bss)(\..*)?|tw_shared|\.(init|fini)_array(\..*)?", re.DOTALL)
"""Sections of changeable data that an object file may have. Those of variables are collected by a
linker script; compilers make others for variables of a thread of the host."""
_ENTRY = "tw_call"
_RESERVED = re.compile(r"_(?:start|init|fini|end|edata)|__(?!odr_asan).*|_Z.*", re.DOTALL)
"""Names with which a program begins or ends, names of the compiler, and names of C++."""
LIBRARIES = (
    "libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libasan.so", "libtsan.so",
)  # fmt: skip
"""The libraries of a kernel's program."""
_SYMBOL = np.dtype([
    ("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"),
    ("size", "<u8"),
])  # fmt: skip
"""An entry of a symbol table (System V ABI, chapter 4), which numpy reads much faster than
elftools."""


def refused_symbol(data: bytes, names_in_use: Callable[[], Container[str]]) -> Failed | None:
    """The reason why an object file may not be linked, or None.

    `names_in_use` returns the names that the other parts of the program define. It is called only
    for object files that define names for other files.
    """
    try:
        file = ELFFile(io.BytesIO(data))
        table = file.get_section_by_name(".symtab")
        symbols = list(table.iter_symbols()) if isinstance(table, SymbolTableSection) else []
        changeable = [s.name for s in file.iter_sections() if s["sh_flags"] & SH_FLAGS.SHF_WRITE]
        called = [s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF" and s.name]
        defined = _defined(file, symbols)
    except (ELFError, UnicodeDecodeError, ValueError, IndexError):
        return Failed("check", "forbidden_call", "the kernel's object file cannot be read.")
    elsewhere = next((name for name in changeable if not _VARIABLES.fullmatch(name)), None)
    if elsewhere is not None:
        log = (
            f"the kernel has variables in the section {elsewhere}: declare them without "
            "`thread_local` and without a section."
        )
        return Failed("check", "keeps_state", log)
    for name in called:
        if _OWN_CALLS.fullmatch(name) is None and refused_call(name, 1) is not None:
            log = (
                f"the kernel calls {name}, which it does not define: in addition to its own "
                "functions, it may call those of CUDA and of math.h."
            )
            return Failed("check", "forbidden_call", log)
    for name in defined:
        if name != _ENTRY and (_RESERVED.fullmatch(name) or name in names_in_use()):
            log = (
                f'the kernel defines {name} with C linkage (extern "C"), but the program that '
                f"calls the kernel already has a function or variable named {name}: rename yours, "
                'or remove extern "C".'
            )
            return Failed("check", "forbidden_call", log)
    return None


def defined_names(data: bytes) -> set[str]:
    """The names that a 64-bit object file or shared library defines for other files.

    Raises `ELFError` if `data` is no ELF file.
    """
    names: set[str] = set()
    file = ELFFile(io.BytesIO(data))
    for table in file.iter_sections():
        if isinstance(table, SymbolTableSection):
            text = file.get_section(table["sh_link"]).data()
            symbols = np.frombuffer(table.data(), _SYMBOL)
            visible = (symbols["section"] != 0) & (symbols["info"] >> 4 != 0)
            starts = symbols["name"][visible].tolist()
            names |= {text[at : text.index(0, at)].decode(errors="replace") for at in starts}
    return names


def _defined(file: ELFFile, symbols: Sequence[Symbol]) -> list[str]:
    """The names that an object file defines for other files, without those of C++ templates and
    inline functions, which are in groups of sections.
    """
    sections = list(file.iter_sections())
    found = []
    for symbol in symbols:
        where = symbol["st_shndx"]
        if where != "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_LOCAL":
            grouped = isinstance(where, int) and sections[where]["sh_flags"] & SH_FLAGS.SHF_GROUP
            if not grouped:
                found.append(symbol.name)
    return found
