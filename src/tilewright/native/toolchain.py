"""The system's C compiler, which compiles a kernel to an object file in a sandbox.

The object file is linked by image.py, which refuses everything that a kernel does not need. The
system's linker and loader are not used.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Failed, KernelLanguage, content_id
from tilewright.native.image import linked
from tilewright.native.object_file import MAX_BYTES, UnfitError
from tilewright.native.vectorizer import FLAGS as MESSAGE_FLAGS
from tilewright.native.vectorizer import MAX_BYTES as MAX_MESSAGE_BYTES
from tilewright.native.vectorizer import MESSAGES_FILE, missed_reasons
from tilewright.parts.languages import C
from tilewright.sandbox import Limits, Sandbox, find_sandbox, open_folder, read_output

HARNESS = Path(__file__).with_name("harness.c")
THREADS = Path(__file__).with_name("threads.c")
HOW_TO_GET = "install a C compiler (Debian: apt install gcc), or name one in the variable CC"

FLAGS = ("-O3", "-march=native", "-g", "-std=gnu11", "-fno-math-errno")
"""The flags with which kernels are compiled, which are recorded with every result."""
_OBJECT = (
    "-c", "-fPIE", "-fvisibility=hidden", "-fno-common", "-fno-asynchronous-unwind-tables",
    "-fno-stack-protector", "-U_FORTIFY_SOURCE",
)  # fmt: skip
"""Flags for an image at a fixed address that calls only its own and allowed functions."""
LISTED = (
    "-S", "-O1", "-g1", "-fno-tree-vectorize", "-fno-tree-slp-vectorize", "-fno-jump-tables",
    "-fno-omit-frame-pointer", "-mno-red-zone",
)  # fmt: skip
"""Flags for a listing in which each condition is a comparison and a jump, a move or a value.

With -Og, the number of iterations of a loop would not be compared before its first iteration. A
loop that has no iteration only for a value that no check contains would then have both results in
all checks.
"""
LISTED_BY_GCC = (
    "-fno-reorder-blocks-and-partition", "-fno-if-conversion", "-fno-if-conversion2",
    "-fno-ipa-ra", "-ftree-vrp", "-fno-ira-share-spill-slots",
)  # fmt: skip
"""A function is then in one piece, the result of no comparison is a mask, which would not be
recorded, no function relies on registers that another one does not change, and variables share no
place on the stack, so that the analysis can tell an address from a number there.
"""

GIMPLE = "-fdump-tree-ccp2-lineno-uid-asmname=kernel.gimple"
"""Makes GCC write the kernel in GIMPLE form, with the numbers of lines and of declarations, in
which each variable has its name. Functions that are called once are inlined there, and the loops
are those of the source.
"""


_UNION = re.compile(r"\bunion\b|##|%:%:")
"""The word, or what could compose it in a macro."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The assembly text of a kernel, and its GIMPLE form, which is empty for other compilers than
    GCC. `has_unions` tells whether two members of a structure may share a place.
    """

    assembly: str
    gimple: str
    has_unions: bool = False


@dataclass(frozen=True, slots=True)
class Toolchain:
    """One usable compiler. `id` names it and its version; `flags` are those of kernels.

    `threads` is the number of threads of a kernel, including the one that calls it; `language` is
    the language of kernels.
    """

    id: str
    path: str
    flags: tuple[str, ...] = FLAGS
    threads: int = 1
    language: KernelLanguage = C

    @property
    def openmp(self) -> bool:
        """Whether kernels may distribute loops among threads with OpenMP's pragmas."""
        return "-fopenmp" in self.flags

    @property
    def is_gcc(self) -> bool:
        """Whether it is GCC, by its first line of `--version`."""
        return "clang" not in self.id and ("gcc" in self.id.lower() or "GCC" in self.id)

    @property
    def build(self) -> str:
        """The flags as text, and a hash of everything else that determines how a kernel runs."""
        return f"{' '.join(self.flags)} {content_id(*_OBJECT, self.harness)[:8]}"

    @property
    def harness(self) -> str:
        """The source of the program that calls kernels."""
        return THREADS.read_text() * (self.threads > 1) + HARNESS.read_text()

    @property
    def harness_flags(self) -> tuple[str, ...]:
        """The flags with which this program is compiled. Its `pthread_create` is exported, so that
        libraries call it.
        """
        several = self.threads > 1
        return (f"-DWORKERS={self.threads - 1}", "-pthread", "-rdynamic") if several else ()


@cache
def find_toolchain(threads: int = 1) -> Toolchain:
    """The compiler that CC names, or otherwise gcc, clang or cc.

    Raises `ToolchainMissingError` if there is none, or if CC does not name a compiler.
    """
    chosen = os.environ.get("CC")
    for name in [chosen] if chosen else ["gcc", "clang", "cc"]:
        path = shutil.which(name)
        if path is not None:
            version = _version(path)
            return Toolchain(version, path, (*FLAGS, *_flags_of(version, threads)), threads)
    if chosen:
        raise ToolchainMissingError(
            f"the variable CC is {chosen!r}, which is not a program on this machine. Give the "
            "name or path of a C compiler without arguments, or unset CC to use gcc, clang or "
            "cc."
        )
    raise ToolchainMissingError(f"no C compiler for this machine was found: {HOW_TO_GET}.")


def _flags_of(version: str, threads: int) -> tuple[str, ...]:
    """The flags for this number of threads. OpenMP is used only with GCC, because clang's OpenMP
    library makes system calls that are refused.
    """
    if threads == 1:
        return ()
    return ("-pthread",) if "clang" in version else ("-pthread", "-fopenmp")


def compile_kernel(
    toolchain: Toolchain,
    source: str,
    timeout_s: float,
    headers: Mapping[str, str] | None = None,
) -> bytes | Failed:
    """The object file of a kernel, which is identical for the same source and toolchain.

    `headers` are further files by name. A `Failed` contains the compiler's messages and the first
    source line, or names the part of the kernel that is not allowed.
    """
    with open_folder("tilewright-build-") as name:
        return _compiled(toolchain, source, timeout_s, headers or {}, Path(name))


def compile_explained(
    toolchain: Toolchain, source: str, timeout_s: float, headers: Mapping[str, str]
) -> tuple[bytes, Mapping[int, str]] | Failed:
    """A kernel's object file, and the reasons why loops were not vectorised, by line.

    The code is the same as that of `compile_kernel`. Only GCC gives reasons.
    """
    flags = MESSAGE_FLAGS if toolchain.is_gcc else ()
    with open_folder("tilewright-build-") as name:
        folder = Path(name)
        built = _compiled(toolchain, source, timeout_s, headers, folder, flags)
        if isinstance(built, Failed):
            return built
        try:
            messages = read_output(folder / MESSAGES_FILE, MAX_MESSAGE_BYTES)
        except OSError:  # there are none, or more than can be shown
            return built, {}
    return built, missed_reasons(messages.decode(errors="replace"), toolchain.language.file)


def assembly_of(toolchain: Toolchain, source: str, timeout_s: float) -> Listed | Failed:
    """The compiler's texts of a kernel without vectorised loops, or the failure."""
    with open_folder("tilewright-build-") as name:
        folder = Path(name)
        (folder / toolchain.language.file).write_text(source, encoding="utf-8")
        flags = (*toolchain.flags, *_OBJECT[1:], *LISTED, *LISTED_BY_GCC * toolchain.is_gcc)
        arguments = [*flags, toolchain.language.file, "-o", "kernel.s"]
        arguments += [GIMPLE] * toolchain.is_gcc
        failed = _run_compiler(toolchain, arguments, folder, timeout_s)
        if failed is not None:
            return failed
        try:
            return read_listed(folder, source, MAX_BYTES, is_gcc=toolchain.is_gcc)
        except OSError as error:
            return Failed("build", "link_error", f"the compiler wrote no listing: {error}.")


def read_listed(folder: Path, source: str, most_bytes: int, *, is_gcc: bool) -> Listed:
    """The texts that a compiler has written to a folder for a source. Raises `OSError`."""
    names = ("kernel.s", *("kernel.gimple",) * is_gcc)
    texts = [read_output(folder / name, most_bytes).decode(errors="replace") for name in names]
    return Listed(texts[0], "".join(texts[1:]), bool(_UNION.search(source)))


def assembled(toolchain: Toolchain, text: str, timeout_s: float) -> bytes | Failed:
    """The object file of an assembly text that `assembly_of` returned, with additions."""
    with open_folder("tilewright-build-") as name:
        folder = Path(name)
        (folder / "kernel.s").write_text(text, encoding="utf-8")
        arguments = ["-c", "kernel.s", "-o", "kernel.o"]
        return _run_compiler(toolchain, arguments, folder, timeout_s) or _object(toolchain, folder)


def _compiled(
    toolchain: Toolchain,
    source: str,
    timeout_s: float,
    headers: Mapping[str, str],
    folder: Path,
    more: Sequence[str] = (),
) -> bytes | Failed:
    """The object file, compiled in this folder with `more` flags."""
    name = str(folder)
    for file, text in {**headers, toolchain.language.file: source}.items():
        (folder / file).write_text(text, encoding="utf-8")
    arguments = [
        *toolchain.flags, f"-ffile-prefix-map={name}=.", "-I.", toolchain.language.file, "-o",
        "kernel.o", *_OBJECT, *more,
    ]  # fmt: skip
    return _run_compiler(toolchain, arguments, folder, timeout_s) or _object(toolchain, folder)


def _run_compiler(
    toolchain: Toolchain, arguments: Sequence[str], folder: Path, timeout_s: float
) -> Failed | None:
    """Run the compiler in a folder; None if it succeeded, or its messages."""
    finished = compiler_sandbox(toolchain).run(
        [toolchain.path, *arguments],
        folder,
        Limits(timeout_s),
        {"PATH": os.environ.get("PATH", "")},
    )
    if finished.status is None:
        return Failed("build", "timeout", f"the compiler was stopped after {timeout_s:g} s.")
    log = finished.output.decode(errors="replace").replace(str(folder), ".")
    if finished.status != 0:
        log = log or f"the compiler failed with status {finished.status}."
        return _failure_of(log, toolchain.language)
    return None


def _object(toolchain: Toolchain, folder: Path) -> bytes | Failed:
    """The object file that the compiler wrote, or what is not allowed in it."""
    try:
        binary = read_output(folder / "kernel.o", MAX_BYTES)
    except OSError as error:
        return Failed("build", "link_error", f"the compiler wrote no object file: {error}.")
    try:
        linked(binary, toolchain.threads)
    except UnfitError as refused:
        return Failed("build", "link_error", str(refused))
    return binary


def compile_program(toolchain: Toolchain, source: str, flags: Sequence[str] = ()) -> bytes:
    """An executable of this package's own source; `ToolchainMissingError` if it does not build."""
    with open_folder("tilewright-build-") as name:
        folder = Path(name)
        (folder / "program.c").write_text(source, encoding="utf-8")
        command = [toolchain.path, "-O3", *flags, "program.c", "-o", "program", "-lm", "-ldl"]
        finished = compiler_sandbox(toolchain).run(
            command, folder, Limits(60.0), {"PATH": os.environ.get("PATH", "")}
        )
        if finished.status != 0:
            lines = finished.output.decode(errors="replace").splitlines() or ["no message"]
            raise ToolchainMissingError(
                f"{toolchain.id} cannot build a program for this machine ({lines[-1]}): "
                f"{HOW_TO_GET}."
            )
        return read_output(folder / "program", MAX_BYTES)


@cache
def compiler_sandbox(toolchain: Toolchain) -> Sandbox:
    """The strongest sandbox in which this compiler can run."""
    home = Path(toolchain.path).resolve().parent.parent
    readable = () if home in (Path("/"), Path.home()) else (home,)
    try:
        return find_sandbox(
            readable, [toolchain.path, "--version"], {"PATH": os.environ.get("PATH", "")}
        )
    except OSError as error:
        raise ToolchainMissingError(
            f"{toolchain.id} cannot be started ({error}): {HOW_TO_GET}."
        ) from error


_MAX_LOG = 8000


def _failure_of(log: str, language: KernelLanguage) -> Failed:
    place = rf"^(?:\./)?{re.escape(language.file)}:(\d+)(?::\d+)?: (?:fatal )?error"
    error = re.search(place, log, re.MULTILINE)
    if error:
        return Failed("build", "compile_error", log[:_MAX_LOG], int(error.group(1)))
    kind = "link_error" if "undefined reference" in log or "ld returned" in log else "compile_error"
    return Failed("build", kind, log[:_MAX_LOG])


def _version(path: str) -> str:
    try:
        printed = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=30,
            stdin=subprocess.DEVNULL,
        ).stdout  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return path
    return printed.partition("\n")[0].strip() or path
