"""What a compiled kernel may call, and whether it may be loaded at all."""

from __future__ import annotations

import io
import re

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from tilewright.core.records import Failed

_MATHEMATICS = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "pow",
    "sqrt",
    "rsqrt",
    "cbrt",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sinh",
    "cosh",
    "asin",
    "acos",
    "atan",
    "atan2",
    "erf",
    "erfc",
    "fabs",
    "fmax",
    "fmin",
    "fma",
    "fmod",
    "floor",
    "ceil",
    "round",
    "trunc",
    "rint",
    "nearbyint",
    "lrint",
    "lround",
    "ldexp",
    "frexp",
    "scalbn",
    "copysign",
    "hypot",
]
ALLOWED_CALLS = frozenset(
    [f"{name}{suffix}" for name in _MATHEMATICS for suffix in ("", "f")]
    + ["memcpy", "memmove", "memset", "memcmp"]
)
"""Functions a kernel may call that it does not define."""
_VECTOR_CALLS = re.compile(r"_ZGV[bcde][NM]\d+v+_(\w+)")
"""The C library's mathematical functions on vectors, by the names of x86-64's vector ABI."""
_THREAD_CALLS = re.compile(
    r"pthread_(create|join|detach|self|equal|(mutex|cond|barrier|spin)_\w+)|sched_yield|"
    r"(GOMP|omp)_\w+"
)
"""Further ones where several threads are declared; what they may ask of the system is filtered."""
_RUNS_ALONE = {
    "DT_INIT", "DT_INIT_ARRAY", "DT_PREINIT_ARRAY", "DT_FINI", "DT_FINI_ARRAY",
}  # fmt: skip
_RESOLVED = {"STT_LOOS", "STT_GNU_IFUNC"}
_IRELATIVE = {37, 1032}  # R_X86_64_IRELATIVE, R_AARCH64_IRELATIVE


def unfit(image: bytes, threads: int) -> Failed | None:
    """Why a shared object may not be loaded, or None; kernels may run so many `threads`."""
    try:
        elf = ELFFile(io.BytesIO(image))
        defined, wanted = _symbols(elf)
    except ELFError as error:
        return Failed("build", "link_error", f"the compiler's output cannot be read: {error}.")
    if "kernel" not in defined:
        return Failed(
            "build", "link_error", "the source defines no (non-static) function named kernel."
        )
    foreign = sorted(name for name in wanted if not _is_mathematics(name))
    for_threads = [name for name in foreign if _THREAD_CALLS.fullmatch(name)]
    if threads > 1:
        foreign = [name for name in foreign if name not in for_threads]
    elif for_threads:
        return Failed(
            "build",
            "link_error",
            f"the kernel calls {for_threads[0]}, but may use one thread: more are declared in a "
            "target file (docs/targets/host-c.md).",
        )
    if foreign:
        return Failed(
            "build",
            "link_error",
            f"the kernel calls {foreign[0]}, which it does not define: beside its own functions it "
            "may call those of math.h, memcpy, memmove, memset and memcmp.",
        )
    if _runs_before_it_is_called(elf):
        return Failed(
            "build",
            "link_error",
            "the kernel has code that would run before it is called (constructors or resolvers).",
        )
    return None


def _is_mathematics(name: str) -> bool:
    vector = _VECTOR_CALLS.fullmatch(name)
    return (vector.group(1) if vector else name) in ALLOWED_CALLS


def _symbols(elf: ELFFile) -> tuple[set[str], set[str]]:
    """Names of functions that are defined, and of all that is wanted from elsewhere."""
    defined, wanted = set(), set()
    for section in elf.iter_sections():
        if not isinstance(section, SymbolTableSection) or section.name != ".dynsym":
            continue
        for symbol in section.iter_symbols():
            if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["type"] == "STT_FUNC":
                defined.add(symbol.name)
            elif symbol["st_shndx"] == "SHN_UNDEF" and symbol.name:
                wanted.add(symbol.name)
    return defined, wanted


def _runs_before_it_is_called(elf: ELFFile) -> bool:
    for section in elf.iter_sections():
        if isinstance(section, SymbolTableSection) and any(
            symbol["st_info"]["type"] in _RESOLVED for symbol in section.iter_symbols()
        ):
            return True
        if isinstance(section, DynamicSection) and any(
            tag.entry.d_tag in _RUNS_ALONE for tag in section.iter_tags()
        ):
            return True
        if isinstance(section, RelocationSection) and any(
            relocation["r_info_type"] in _IRELATIVE for relocation in section.iter_relocations()
        ):
            return True
    return False
