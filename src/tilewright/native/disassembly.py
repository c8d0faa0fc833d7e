"""The machine code of a kernel that runs on this machine, read by GNU objdump."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from tilewright.core.compiled_code import CompiledCode
from tilewright.core.errors import InputError, ToolchainMissingError
from tilewright.native.image import BASE, Image, linked
from tilewright.native.instruction_rates import InstructionRates
from tilewright.native.loop_notes import loop_notes
from tilewright.native.object_file import read_object, with_addresses
from tilewright.parts.debug_lines import source_lines
from tilewright.parts.machine_code.instructions import Instruction
from tilewright.parts.machine_code.summary import TooLargeError, summarized
from tilewright.parts.machine_code.x86 import ARCHITECTURE, read_objdump
from tilewright.sandbox import Limits, Sandbox, find_sandbox, open_folder

OBJDUMP = "objdump"
HOW_TO_GET = "install GNU binutils (Debian: apt install binutils)"
_NOP = b"\x90"
_TIMEOUT_S = 30.0
_MOST_CODE_BYTES = 1 << 20
_MOST_PRINTED_BYTES = 128 << 20


def compiled_code(
    binary: bytes,
    threads: int,
    file: str,
    reasons: Mapping[int, str],
    rates: InstructionRates | None = None,
) -> CompiledCode:
    """The loops of a kernel's object file, and notes on the innermost ones.

    `file` is the name of the kernel's source file, `reasons` say why loops at some lines were not
    vectorised, and `rates` are those of instructions on this machine. Raises
    `ToolchainMissingError` if objdump or a reader for this processor is missing.
    """
    found, image = read_object(binary), linked(binary, threads)
    if found.machine != "x86_64":
        raise ToolchainMissingError(
            f"the machine code of {found.machine} cannot be read here, only that of x86-64: "
            "look at it with the tools of your compiler."
        )
    ends = {image.sections_at[n]: s.size for n, s in found.sections.items() if s.executable}
    start, end = min(ends), max(at + size for at, size in ends.items())
    if end - BASE > _MOST_CODE_BYTES:
        raise InputError(
            f"the kernel's machine code has {(end - BASE) >> 10:,} KiB, too much to examine. Give "
            f"a kernel with at most {_MOST_CODE_BYTES >> 10:,} KiB."
        )
    code = _named(read_objdump(_dumped(_code_alone(image, ends, end)), end), image)
    told = with_addresses(binary, image.sections_at)

    def lines(addresses: Sequence[int]) -> Sequence[int | None]:
        return source_lines(told, addresses, file)

    entries = [image.entry, start]
    try:
        summary = summarized(ARCHITECTURE, code, entries, lines)
    except TooLargeError as error:
        raise InputError(str(error)) from error
    return replace(summary, notes=loop_notes(summary.loops, reasons, rates))


def _code_alone(image: Image, sections: Mapping[int, int], end: int) -> bytes:
    """The image's code up to `end`, with no-ops between sections, because zeros would be
    disassembled as code.
    """
    code = bytearray(_NOP * (end - BASE))
    for at, size in sections.items():
        code[at - BASE : at - BASE + size] = image.code[at - BASE : at - BASE + size]
    return bytes(code)


def _dumped(code: bytes) -> str:
    """The output of objdump for code at `BASE`. The code is untrusted, so objdump runs in the
    sandbox.
    """
    path, sandbox = _objdump()
    with open_folder("tilewright-objdump-") as name:
        (Path(name) / "code").write_bytes(code)
        command = [
            path, "-D", "-w", "--no-show-raw-insn", "-b", "binary", "-m", "i386:x86-64",
            f"--adjust-vma={BASE:#x}", "code",
        ]  # fmt: skip
        limits = Limits(_TIMEOUT_S, output_bytes=_MOST_PRINTED_BYTES)
        finished = sandbox.run(command, Path(name), limits, _environment())
    if finished.status != 0:
        said = finished.output.decode(errors="replace").strip().splitlines() or ["no message"]
        raise ToolchainMissingError(
            f"{path} cannot read machine code of x86-64 ({said[-1][:200]}): {HOW_TO_GET}."
        )
    return finished.output.decode(errors="replace")


@cache
def _objdump() -> tuple[str, Sandbox]:
    """The disassembler, and the strongest sandbox in which it can start."""
    path = shutil.which(OBJDUMP)
    if path is None:
        raise ToolchainMissingError(
            f"{OBJDUMP}, which shows machine code, was not found: {HOW_TO_GET}."
        )
    try:
        return path, find_sandbox((), [path, "--version"], _environment())
    except OSError as error:
        raise ToolchainMissingError(f"{path} cannot be started ({error}): {HOW_TO_GET}.") from error


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", "")}


def _named(code: Sequence[Instruction], image: Image) -> list[Instruction]:
    """The code, in which the addresses of library functions are replaced by their names."""
    return [
        replace(one, text=f"{one.text.partition(' ')[0]} {image.calls_at[one.target]}")
        if one.target is not None and one.target in image.calls_at
        else one
        for one in code
    ]
