"""Builds a candidate as a bare-metal program, which contains the kernel, its inputs, and code that
prints the result.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilewright.core.records import Failed
from tilewright.parts.inputs import Array
from tilewright.parts.languages import C
from tilewright.targets.gemmini.source_rules import HEADERS, check_source
from tilewright.targets.gemmini.toolchain import (
    CONFIGURATION_HEADER,
    RUNTIME,
    Toolchain,
    failure_of,
    run_compiler,
)

_BAREMETAL = Path(__file__).parent / "baremetal"
_PRIME, _BASIS = 0x100000001B3, 0xCBF29CE484222325


@dataclass(frozen=True, eq=False)
class CorrectRun:
    """All arguments in order: their values before the call, and their bytes after a correct run.

    Arguments in `within_tolerance` may have other bytes. For them, `mismatch` compares the bytes of
    all arguments after a run with the reference, and returns the first difference or None.
    """

    initial: Sequence[Array]
    final: Sequence[bytes]
    within_tolerance: Sequence[bool]
    mismatch: Callable[[Sequence[bytes]], str | None]


@dataclass(frozen=True, eq=False)
class Program:
    """A built program; `hashes` are the hashes of each argument's bytes after a correct run."""

    elf: Path
    nonce: int
    hashes: tuple[int, ...]
    correct: CorrectRun


def build_program(
    toolchain: Toolchain,
    source: str,
    configuration: str,
    run: CorrectRun,
    folder: Path,
    timeout_s: float,
    headers: Sequence[str] = HEADERS,
) -> Program | Failed:
    """Build `source` with the inputs of `run` in `folder`, which should be empty.

    `configuration` is the text of configuration.h, and `headers` are the headers that the source
    may include. Names and the number in the result line are random, so each build is different.
    """
    refused = check_source(source, headers)
    if refused is not None:
        return refused
    arrays = [np.ascontiguousarray(array) for array in run.initial]
    nonce = secrets.randbits(64)
    names = {"MAIN": f"main_{secrets.token_hex(8)}", "ARGUMENTS": f"args_{secrets.token_hex(8)}"}
    (folder / C.file).write_text(source, encoding="utf-8")
    (folder / CONFIGURATION_HEADER).write_text(configuration, encoding="utf-8")
    (folder / "arguments.S").write_text(_arguments(arrays, names["ARGUMENTS"], folder))
    definitions = [f"-D{name}={value}" for name, value in names.items()]
    values = sum(1 << i for i, by_value in enumerate(run.within_tolerance) if by_value)
    definitions += [f"-DNONCE={nonce:#x}ull", f"-DCOUNT={len(arrays)}", f"-DVALUES={values}"]
    steps = (
        ["-include", "gemmini.h", "-c", C.file, "-o", "kernel.o"],
        [*definitions, "-c", str(_BAREMETAL / "harness.c"), "-o", "harness.o"],
        [*definitions, "-c", str(_BAREMETAL / "start.S"), "-o", "start.o"],
        ["-c", "arguments.S", "-o", "arguments.o"],
        ["-c", str(RUNTIME / "runtime.c"), "-o", "runtime.o"],
        [
            *_link_flags(toolchain), "start.o", "kernel.o", "harness.o", "arguments.o",
            "runtime.o", "-o", "kernel.elf",
        ],
    )  # fmt: skip
    for arguments in steps:
        finished = run_compiler(toolchain, arguments, folder, timeout_s)
        if finished is None:
            return Failed("build", "timeout", f"the compiler was stopped after {timeout_s:g} s.")
        if finished[0] != 0:
            return failure_of(finished[1].replace(str(folder), "."))
    return Program(folder / "kernel.elf", nonce, tuple(map(_hash, run.final)), run)


def _link_flags(toolchain: Toolchain) -> list[str]:
    """The kernel's own link flags with this program's layout and entry."""
    layout = str(RUNTIME / "link.ld")
    flags = [f.replace(layout, str(_BAREMETAL / "link.ld")) for f in toolchain.link_flags]
    return [f.replace("-e,kernel", "-e,_start") for f in flags]


def _arguments(arrays: list[Array], table: str, folder: Path) -> str:
    """Assembler code for the arguments, each page-aligned and followed by an unused page, and for
    the table of their addresses.
    """
    lines = ['.section .arguments, "aw"']
    for i, array in enumerate(arrays):
        (folder / f"argument{i}.bin").write_bytes(_words(array.tobytes()).tobytes())
        lines += [".balign 4096", f'argument{i}: .incbin "argument{i}.bin"', ".fill 4096, 1, 0"]
    lines += [".data", ".balign 8", f".globl {table}", f"{table}:"]
    lines += [
        f".dword argument{i}, {len(_words(array.tobytes()))}" for i, array in enumerate(arrays)
    ]
    return "\n".join(lines) + "\n"


def _words(data: bytes) -> Array:
    """Bytes as 64-bit words, zeros after the last one."""
    return np.frombuffer(data + bytes(-len(data) % 8), np.uint64)


def _hash(data: bytes) -> int:
    value = _BASIS
    for word in _words(data).tolist():
        value = (value ^ word) * _PRIME & 0xFFFFFFFFFFFFFFFF
    return value
