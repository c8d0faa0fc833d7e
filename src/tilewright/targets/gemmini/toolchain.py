"""Finds a RISC-V cross compiler, and compiles a kernel's C text to an ELF file.

`riscv64-unknown-elf-gcc` is used if it is on PATH, and otherwise the clang in the package
`ziglang`. Kernels are compiled for RV64IMAFD without compressed instructions, because the timing
model is calibrated on RTL simulations of such code, with `-O2` like published kernels, and with
`-g1`, so that the source line of a fault is known. Kernels are linked to a fixed address with no
library and no linker relaxation (there is no global pointer).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Failed, content_id
from tilewright.parts.languages import C
from tilewright.sandbox import Limits, Sandbox, find_sandbox, open_folder, read_output

GCC = "riscv64-unknown-elf-gcc"
RUNTIME = Path(__file__).parent / "runtime"
CONFIGURATION_HEADER = "configuration.h"
HOW_TO_GET = (
    f"install {GCC} (Debian: apt install gcc-riscv64-unknown-elf) "
    "or run: pip install 'tilewright[toolchain]'"
)

COMPILE_FLAGS = (
    "-O2", "-g1", "-std=gnu99", "-mabi=lp64d", "-mcmodel=medany", "-ffreestanding", "-fno-common",
    "-fomit-frame-pointer", "-Wno-error=implicit-function-declaration",
)  # fmt: skip
ROLLED_FLAGS = (
    "-fdisable-tree-cunrolli", "-fdisable-tree-cunroll", "-fdisable-rtl-loop2_unroll",
)  # fmt: skip
_MAX_BINARY_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Toolchain:
    """One usable compiler. `id` contains its name and version, and is stored with every result.
    `readable` are the folders in which it is installed, in addition to those of the system. With
    `rolled_flags`, it unrolls no loop; empty if it cannot be told so.
    """

    id: str
    command: tuple[str, ...]
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    readable: tuple[Path, ...] = ()
    rolled_flags: tuple[str, ...] = ()

    @property
    def build(self) -> str:
        """A hash of everything else that determines the binary: flags, header, runtime, linker
        script.
        """
        flags = [f.replace(str(RUNTIME), "") for f in (*self.compile_flags, *self.link_flags)]
        return content_id(*flags, *(path.read_text() for path in sorted(RUNTIME.iterdir())))


@cache
def find_toolchain() -> Toolchain:
    """The compiler to use; `ToolchainMissingError` if there is none."""
    toolchain = find_gcc() or find_zig()
    if toolchain is None:
        raise ToolchainMissingError(f"no RISC-V cross compiler was found: {HOW_TO_GET}.")
    return toolchain


def compiler_family() -> str:
    """The compiler that `find_toolchain` would choose, "gcc" or "clang", without starting it."""
    return "gcc" if shutil.which(GCC) else "clang"


def find_gcc() -> Toolchain | None:
    """The GNU cross compiler on PATH."""
    path = shutil.which(GCC)
    if path is None:
        return None
    first_line = _output([path, "--version"]).partition("\n")[0]
    return Toolchain(
        id=first_line.strip() or GCC,
        command=(path,),
        compile_flags=(*COMPILE_FLAGS, "-march=rv64imafd", "-fno-tree-loop-distribute-patterns"),
        link_flags=(
            "-nostdlib", "-static", "-Wl,--no-relax", "-Wl,--no-warn-rwx-segments",
            "-Wl,--build-id=none", f"-Wl,-T,{RUNTIME / 'link.ld'}",
        ),
        readable=(_home(path),),
        rolled_flags=ROLLED_FLAGS,
    )  # fmt: skip


def find_zig() -> Toolchain | None:
    """Clang from the package `ziglang`, which this Python interpreter starts."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None:
        return None
    command = (sys.executable, "-P", "-m", "ziglang")
    version = _output([*command, "version"]).strip()
    clang = _output([*command, "cc", "--version"]).partition("\n")[0].strip()
    return Toolchain(
        id=f"zig cc {version} ({clang})",
        command=(*command, "cc", "-target", "riscv64-freestanding-none"),
        compile_flags=(
            *COMPILE_FLAGS, "-mcpu=generic_rv64+m+a+f+d-c", "-mno-relax",
            "-fno-sanitize=undefined", "-fno-stack-protector",
        ),
        link_flags=(
            "-nostdlib", "-static", "-Wl,--no-gc-sections", "-Wl,-e,kernel",
            f"-Wl,-T,{RUNTIME / 'link.ld'}",
        ),
        environment=(
            ("ZIG_GLOBAL_CACHE_DIR", "zig-cache"), ("ZIG_LOCAL_CACHE_DIR", "zig-cache"),
        ),
        readable=(Path(sys.prefix), Path(sys.base_prefix), Path(spec.origin or "").parent),
    )  # fmt: skip


def compile_kernel(
    toolchain: Toolchain, source: str, header: str, timeout_s: float, flags: Sequence[str] = ()
) -> bytes | Failed:
    """The linked ELF file, which is identical for the same source, header and toolchain.

    `header` is the text of configuration.h, which describes the instance to gemmini.h. A `Failed`
    of stage "build" contains the compiler's messages and the first source line.
    """
    with open_folder("tilewright-build-") as name:
        folder = Path(name)
        (folder / C.file).write_text(source, encoding="utf-8")
        (folder / CONFIGURATION_HEADER).write_text(header, encoding="utf-8")
        (folder / "runtime.o").write_bytes(_runtime_object(toolchain))
        arguments = (
            *toolchain.link_flags, *flags, "-include", "gemmini.h", C.file, "runtime.o",
            "-o", "kernel.elf",
        )  # fmt: skip
        finished = run_compiler(toolchain, arguments, folder, timeout_s)
        if finished is None:
            return Failed("build", "timeout", f"the compiler was stopped after {timeout_s:g} s.")
        code, log = finished
        if code == 0:
            return read_output(folder / "kernel.elf", _MAX_BINARY_BYTES)
        log = log.replace(name, ".").replace(f"{RUNTIME}/", "")  # the same on every machine
        return failure_of(log or f"the compiler failed with status {code}.")


@cache
def _runtime_object(toolchain: Toolchain) -> bytes:
    with open_folder("tilewright-build-") as name:
        folder = Path(name)
        shutil.copy(RUNTIME / "runtime.c", folder)
        finished = run_compiler(
            toolchain, ("-c", "runtime.c", "-o", "runtime.o"), folder, timeout_s=60
        )
        if finished is None or finished[0] != 0:
            lines = finished[1].splitlines() if finished else []
            reason = lines[-1] if lines else "it did not finish"
            raise ToolchainMissingError(
                f"{toolchain.id} cannot compile RISC-V code ({reason}): {HOW_TO_GET}."
            )
        return (folder / "runtime.o").read_bytes()


def run_compiler(
    toolchain: Toolchain, arguments: Sequence[str], folder: Path, timeout_s: float
) -> tuple[int, str] | None:
    """Exit status and messages of the compiler in `folder`; None if it exceeded its time limit. The
    compiler reads untrusted text, so it runs in a sandbox and may write only to `folder`.
    """
    command = [
        *toolchain.command, *toolchain.compile_flags, f"-ffile-prefix-map={folder}=.",
        f"-ffile-prefix-map={RUNTIME}=runtime", f"-I{RUNTIME}", "-I.", *arguments,
    ]  # fmt: skip
    finished = compiler_sandbox(toolchain).run(
        command, folder, Limits(timeout_s), _environment(toolchain)
    )
    if finished.status is None:
        return None
    return finished.status, finished.output.decode(errors="replace")


@cache
def compiler_sandbox(toolchain: Toolchain) -> Sandbox:
    """The strongest sandbox in which this compiler can start."""
    try:
        return find_sandbox(
            (Path(__file__).parent, *toolchain.readable),
            [*toolchain.command, "--version"],
            _environment(toolchain),
        )
    except OSError as error:
        raise ToolchainMissingError(
            f"{toolchain.id} cannot be started ({error}): {HOW_TO_GET}."
        ) from error


def _environment(toolchain: Toolchain) -> dict[str, str]:
    """The only environment variables that a compiler receives from this process."""
    return {"PATH": os.environ.get("PATH", ""), **dict(toolchain.environment)}


def _home(program: str) -> Path:
    """The folder in which a program is installed, which contains its bin folder, but is never a
    user's home.
    """
    folder = Path(program).resolve().parent
    return folder if folder.parent in (Path("/"), Path.home()) else folder.parent


_ERROR_LINE = re.compile(r"^(?:\./)?kernel\.c:(\d+)(?::\d+)?: (?:fatal )?error", re.MULTILINE)
_UNDEFINED_KERNEL = re.compile(r"undefined (?:reference to|symbol:) [`'\"]?kernel\b")
_UNDEFINED_NAME = re.compile(r"undefined (?:reference to|symbol:) [`'\"]?([\w.$]+)")
_DEFINED_TWICE = re.compile(r"(?:multiple definition of|duplicate symbol:) [`'\"]?([\w.$]+)")
_OF_LINKER = re.compile(
    r"^(?:\S*\bld(?:\.lld)?: |\S+:\d+: (?:undefined|multiple)|>>> |collect2: ).*\n?", re.M
)
_TOO_LARGE = re.compile(r"code and data take more than|relocation truncated|out of range")
_GNU_PLACE = re.compile(r"kernel\.c:(\d+): undefined reference")
_LLD_PLACE = re.compile(r">>> referenced by \S*?kernel\.c:(\d+)")
_MAX_LOG = 8000


def failure_of(log: str) -> Failed:
    """The compiler's or linker's messages as a typed failure."""
    error = _ERROR_LINE.search(log)
    if error:
        return Failed("build", "compile_error", log[:_MAX_LOG], int(error.group(1)))
    if _UNDEFINED_KERNEL.search(log):
        return Failed(
            "build", "link_error", "the source defines no (non-static) function named kernel."
        )
    if _TOO_LARGE.search(log):
        return Failed("build", "link_error", "code and static data take more than 16 MiB.")
    twice = _DEFINED_TWICE.search(log)
    if twice:
        reason = f"the kernel defines {twice[1]}, which every kernel's program defines: rename it."
        return Failed("build", "link_error", reason)
    missing = _UNDEFINED_NAME.search(log)
    if missing:
        reason = (
            f"the kernel uses {missing[1]}, which it does not define: of the functions of the C "
            "library, only memcpy, memmove, memset and memcmp exist."
        )
        messages = _OF_LINKER.sub("", log).rstrip()
        text = f"{messages}\n{reason}" if messages else reason
        return Failed("build", "link_error", text[:_MAX_LOG], _line_of_undefined(log))
    return Failed("build", "compile_error", log[:_MAX_LOG])


def _line_of_undefined(log: str) -> int | None:
    """The source line of an undefined symbol. GNU ld prints the place before the message on the
    same line, and lld on the next line.
    """
    match = _GNU_PLACE.search(log) or _LLD_PLACE.search(log)
    return int(match.group(1)) if match else None


def _output(command: Sequence[str]) -> str:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
