"""Builds the programs that run a kernel on the CPU: its object file, linked with the runtime.

One program has the address sanitizer. The other program reports every access to the part of the
runtime that finds data races. There are two programs because no compiler can do both. They also
differ in what CUDA leaves open: fused multiply-adds, the errors of fast functions, the contents of
local variables that were never set, and the properties of the device. A kernel has to be right in
both. A third program records the results of conditions (`condition_program.py`).

The names that the object file may call and define are restricted (`cpu_symbols.py`), and a kernel
that breaks these rules is refused before it is linked.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from elftools.common.exceptions import ELFError

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Failed, content_id
from tilewright.native.toolchain import GIMPLE, LISTED, LISTED_BY_GCC, Listed, read_listed
from tilewright.sandbox import Limits, Sandbox, find_sandbox, open_folder, read_output
from tilewright.targets.cuda.cpu_symbols import LIBRARIES, defined_names, refused_symbol
from tilewright.targets.cuda.emulator_files import EMULATOR, RefusedError, own_file, write_headers
from tilewright.targets.cuda.launches import NotReadError, for_the_cpu
from tilewright.targets.cuda.messages import without_messages
from tilewright.targets.cuda.nvcc import OWN_HEADERS

HOW_TO_GET = "install GCC's C++ compiler, version 12 or later (Debian: apt install g++)"
_COMMON = ("-std=c++17", "-g1", "-fno-pie", "-w", "-I.")
_KERNEL = (
    "-O1", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fno-stack-protector",
    "-U_FORTIFY_SOURCE", "-ffp-contract=off", "-ftrivial-auto-var-init=pattern", "-fdata-sections",
    "-fsanitize=alignment,shift-exponent,float-cast-overflow,unreachable,return",
    "-fno-sanitize-recover=all",
)  # fmt: skip
"""Compiler flags: a misaligned vector access ends the kernel, as on a GPU, and so does an operation
for which C++ defines no result and this CPU has another one than a GPU. Uninitialised variables get
implausible values."""
_SHARED = """SECTIONS {
  tw_shared : {
    __start_tw_shared = .;
    *(tw_shared) *(.bss.*B9tw_shared*)
    __stop_tw_shared = .;
  }
  tw_data : ALIGN(64) {
    __start_tw_variables = .;
    kernel.o(.data .data.*)
  }
  tw_bss : ALIGN(64) {
    kernel.o(.bss .bss.*)
    . = ALIGN(8);
    __stop_tw_variables = .;
  }
} INSERT AFTER .data;
"""
"""A linker script that collects the variables that are reset for each block (`__shared__` in
device.h), and those that a kernel may keep from one call to the next (state.h)."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One of a kernel's programs: the macro with which the runtime is compiled, further flags for
    the kernel, and flags for linking.
    """

    macro: str
    flags: tuple[str, ...]
    linking: tuple[str, ...] = ()


SANITIZED = Kind(
    "SANITIZED",
    ("-fsanitize=address", "-fsanitize-sections=tw_shared"),
    ("-fsanitize=address", "-Wl,--as-needed"),  # the sanitizer defines what C++'s library would
)
RACES = Kind(
    "RACES",
    (
        "-fsanitize=thread", "--param=tsan-instrument-func-entry-exit=0",
        "--param=tsan-distinguish-volatile=1",
        "-ftrivial-auto-var-init=zero", "-ffp-contract=fast", "-fexpensive-optimizations",
    ),
)  # fmt: skip
RECORDS = Kind(
    "RECORDS",
    (*LISTED, *LISTED_BY_GCC, "-fno-sanitize=all", "-fno-math-errno", "-fpie", "-DTW_LISTED"),
)
"""The program is compiled to a listing, which refers to variables as the analysis expects."""
_KINDS = (SANITIZED, RACES, RECORDS)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*", re.MULTILINE)
_ERROR = re.compile(r"^(?:\./)?kernel\.cu:(\d+):(?:\d+:)? (?:fatal )?error: (.*)", re.MULTILINE)
_MOST_BYTES, _MOST_LOG = 16 << 20, 4000


@dataclass(frozen=True, slots=True)
class CpuCompiler:
    """A C++ compiler of this machine; `id` names its version."""

    path: str
    id: str
    sandbox: Sandbox

    @property
    def build(self) -> str:
        """A hash of everything that determines how a kernel runs on the CPU."""
        paths = [*sorted(EMULATOR.iterdir()), *OWN_HEADERS.values()]
        texts = [path.read_text(encoding="utf-8") for path in paths]
        return content_id(*_COMMON, *_KERNEL, *map(str, _KINDS), _SHARED, *texts)[:8]

    @property
    def identity(self) -> tuple[str, ...]:
        """What changes if another compiler, or another C library, is installed."""
        file = Path(self.path).stat()
        return self.path, self.id, f"{file.st_size} {file.st_mtime_ns}", *platform.libc_ver()

    def compile(
        self, source: str, call: str, timeout_s: float, races: bool = False
    ) -> bytes | Failed:
        """The program of a kernel that nvcc accepts; `not_checked` if this compiler does not accept
        it.

        With `races`, the program that finds data races.
        """
        kind = RACES if races else SANITIZED
        with open_folder("tilewright-cpu-") as name:
            folder = Path(name)
            failed = self._compiled(folder, source, call, kind, ("-c", "-o", "kernel.o"), timeout_s)
            return failed or self._linked(folder, kind, timeout_s)

    def listing(self, source: str, call: str, timeout_s: float) -> Listed | Failed:
        """The texts of a kernel's program, in whose assembly text each condition is an
        instruction."""
        with open_folder("tilewright-cpu-") as name:
            folder = Path(name)
            output = ("-o", "kernel.s", GIMPLE)
            failed = self._compiled(folder, source, call, RECORDS, output, timeout_s)
            return failed or read_listed(folder, source, _MOST_BYTES, is_gcc=True)

    def assembled(self, text: str, timeout_s: float) -> bytes | Failed:
        """The program of an assembly text that `listing` returned, with additions."""
        with open_folder("tilewright-cpu-") as name:
            folder = Path(name)
            (folder / "kernel.s").write_text(text, encoding="utf-8")
            log = self._run(folder, ["-c", "kernel.s", "-o", "kernel.o"], timeout_s)
            if log is not None:
                return _failed(log)
            return self._linked(folder, RECORDS, timeout_s)

    def _compiled(
        self, folder: Path, source: str, call: str, kind: Kind, output: Sequence[str],
        timeout_s: float,
    ) -> Failed | None:  # fmt: skip
        """Compile a kernel in a folder. Returns the failure, or None."""
        try:
            text = for_the_cpu(without_messages(source))
        except NotReadError as error:
            return not_checked(str(error), error.line)
        includes = "\n".join(_INCLUDE.findall(text))
        text = _INCLUDE.sub("", text)
        whole = (
            f'#include "device.h"\n{includes}\nnamespace {{\n#line 1 "kernel.cu"\n{text}\n}}\n'
            f'#line 1 "call.cu"\n{call}'
        )
        write_headers(folder)
        (folder / "program.cpp").write_text(whole, encoding="utf-8")
        (folder / "device.h.gch").write_bytes(_precompiled(self, kind))
        flags = (*_kernel_flags(kind), f"-ffile-prefix-map={folder}=.")
        log = self._run(folder, [*flags, "program.cpp", *output], timeout_s)
        return None if log is None else _failed(log.replace(str(folder), "."))

    def _linked(self, folder: Path, kind: Kind, timeout_s: float) -> bytes | Failed:
        """The program of the object file in a folder."""
        data = read_output(folder / "kernel.o", _MOST_BYTES)
        refused = refused_symbol(data, partial(_names_in_use, self))
        if refused is not None:
            return refused
        (folder / "runtime.o").write_bytes(_runtime(self, kind))
        (folder / "shared.ld").write_text(_SHARED)
        words = ["kernel.o", "runtime.o", "-T", "shared.ld", *kind.linking, "-no-pie"]
        log = self._run(folder, [*words, "-o", "program"], timeout_s)
        if log is not None:
            return not_checked(f"it does not link for the CPU: {log[:_MOST_LOG]}")
        return read_output(folder / "program", _MOST_BYTES)

    def _run(self, folder: Path, words: list[str], timeout_s: float) -> str | None:
        """The compiler's complaint about the source, or None."""
        environment = {"PATH": os.environ.get("PATH", "")}
        finished = self.sandbox.run([self.path, *words], folder, Limits(timeout_s), environment)
        if finished.status is None:
            return f"the compiler was stopped after {timeout_s:g} s"
        return finished.output.decode(errors="replace") if finished.status else None


def not_checked(reason: str, line: int | None = None) -> Failed:
    """The outcome of a kernel that this machine cannot check."""
    place = f"kernel.cu:{line}: " if line else ""
    log = f"{place}not checked: {reason}; only a GPU can show whether it is correct."
    return Failed("check", "not_checked", log, line)


@cache
def find_cpu_compiler() -> CpuCompiler:
    """The compiler that CXX names, or otherwise g++.

    Raises `ToolchainMissingError` if there is no compiler with an address sanitizer.
    """
    name = os.environ.get("CXX") or "g++"
    path = shutil.which(name)
    if path is None:
        raise ToolchainMissingError(
            f"kernels of target cuda are checked on the CPU by a program that {name} builds, and "
            f"there is no {name} on PATH: {HOW_TO_GET}."
        )
    environment = {"PATH": os.environ.get("PATH", "")}
    try:
        sandbox = find_sandbox((), [path, "--version"], environment)
        printed = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=30,
            stdin=subprocess.DEVNULL,
        ).stdout  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainMissingError(f"{path} cannot be started ({error}): {HOW_TO_GET}.") from error
    compiler = CpuCompiler(path, printed.partition("\n")[0].strip() or path, sandbox)
    _runtime(compiler, SANITIZED)
    return compiler


@cache
def _runtime(compiler: CpuCompiler, kind: Kind) -> bytes:
    """The object file of the emulator's own code, which is the same for every kernel."""
    words = (*_COMMON, "-O2", f"-D{kind.macro}", "-c", "runtime.cpp")
    try:
        return own_file(compiler.identity, compiler._run, words, "runtime.o")
    except RefusedError as error:
        raise ToolchainMissingError(
            f"{compiler.id} cannot build the program that runs kernels on the CPU "
            f"({(str(error).splitlines() or ['no message'])[-1]}): {HOW_TO_GET}."
        ) from error


@cache
def _names_in_use(compiler: CpuCompiler) -> frozenset[str]:
    """The names that the emulator and the libraries of a kernel's program define."""
    names = {name for kind in _KINDS for name in defined_names(_runtime(compiler, kind))}
    for library in LIBRARIES:
        words = [compiler.path, f"-print-file-name={library}"]
        found = subprocess.run(
            words, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL
        )
        with suppress(OSError, ELFError):  # a compiler may lack a library, or have a script for it
            names |= defined_names(Path(found.stdout.strip()).read_bytes())
    return frozenset(names)


def _kernel_flags(kind: Kind) -> tuple[str, ...]:
    return (*_COMMON, *_KERNEL, *kind.flags, *(_fused() if kind is RACES else ()))


@cache
def _precompiled(compiler: CpuCompiler, kind: Kind) -> bytes:
    """The header that every kernel includes first, as the compiler has read it.

    It is half of what a kernel's compilation takes. Empty if the compiler cannot precompile: a
    compiler ignores a file that it did not write with the same flags.
    """
    flags = [flag for flag in _kernel_flags(kind) if flag != "-S"]  # of which it makes a listing
    words = (*flags, "-x", "c++-header", "device.h")
    try:
        return own_file(compiler.identity, compiler._run, words, "device.h.gch")
    except RefusedError:
        return b""


@cache
def _fused() -> tuple[str, ...]:
    """The compiler's flags for fused multiply-adds, if this machine has them."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return ()
    return ("-mfma",) if "fma" in flags and platform.machine() == "x86_64" else ()


def _failed(log: str) -> Failed:
    error = _ERROR.search(log)
    if error is None:
        return not_checked(f"it does not compile for the CPU: {log[:_MOST_LOG]}")
    return not_checked(f"it does not compile for the CPU ({error[2]})", int(error[1]))
