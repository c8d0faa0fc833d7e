"""Reads the machine code of a GPU kernel with NVIDIA's disassembler, which needs no GPU."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from tilewright.core.compiled_code import CodeLoop, CompiledCode
from tilewright.core.errors import InputError, ToolchainMissingError
from tilewright.parts.machine_code.sass import Disassembly, read_nvdisasm
from tilewright.parts.machine_code.summary import TooLargeError, summarized
from tilewright.sandbox import Limits, Sandbox, find_sandbox, open_folder

DISASSEMBLER = "nvdisasm"
HOW_TO_GET = (
    "put nvdisasm on PATH (it comes with the CUDA toolkit, as package cuda-nvdisasm, and in "
    "Triton's wheel; no GPU is needed)"
)
COMPUTES = ("floating-point arithmetic", "commands")
"""Classes of instructions that compute. Those of the second set run on tensor cores."""
_LOAD = re.compile(r"\b(?:LDG(?!DEP)|LDS)[A-Z.\d]*")
_USUAL = "/usr/local/cuda/bin"
_IN_TRITON = "backends/nvidia/bin"
_TIMEOUT_S = 60.0
_MOST_PRINTED_BYTES = 64 << 20


def compiled_code(cubins: Sequence[bytes], architecture: str, file: str) -> CompiledCode:
    """The loops of the functions in these cubins, and notes on the innermost ones.

    `file` is the name of the kernel's source. Raises `ToolchainMissingError` if the disassembler is
    missing or too old.
    """
    parts = list[Disassembly]()
    base = 0
    for cubin in cubins:
        parts.append(read_nvdisasm(_printed(cubin), file, base))
        base = max((one.end for part in parts for one in part.code), default=0)
    at = {address: line for part in parts for address, line in part.lines.items()}
    code = [one for part in parts for one in part.code]
    entries = [entry for part in parts for entry in part.entries]
    try:
        found = summarized(
            f"SASS of {architecture}", code, entries, lambda asked: [at.get(a) for a in asked]
        )
    except TooLargeError as error:
        raise InputError(str(error)) from error
    notes = (_note(loop) for loop in found.loops if loop.innermost)
    return replace(found, notes=tuple(note for note in notes if note))


def _note(loop: CodeLoop) -> str:
    """The ratio of arithmetic to loads in an innermost loop, as a sentence; empty if it computes
    nothing."""
    computes = sum(loop.instructions.get(kind, 0) for kind in COMPUTES)
    if not computes:
        return ""
    loads = [found[0] for one in loop.listing if (found := _LOAD.search(one.text))]
    wide = sum(".128" in name for name in loads if name.startswith("LDG"))
    from_global = sum(name.startswith("LDG") for name in loads)
    said = (
        f"loop {loop.number}: {computes} of {loop.count} instructions compute on floats or on "
        f"tensor cores; loads from shared memory: {len(loads) - from_global}, from global memory: "
        f"{from_global}"
    )
    if from_global:
        said += f" ({wide} of them 16 bytes wide)"
    spilled = loop.spill_loads + loop.spill_stores
    return said + (f"; accesses to spilled registers: {spilled}" if spilled else "")


def _printed(cubin: bytes) -> str:
    path, sandbox = _disassembler()
    with open_folder("tilewright-nvdisasm-") as name:
        (Path(name) / "kernel.cubin").write_bytes(cubin)
        limits = Limits(_TIMEOUT_S, output_bytes=_MOST_PRINTED_BYTES)
        words = [path, "-c", "-g", "kernel.cubin"]
        finished = sandbox.run(words, Path(name), limits, _environment())
    printed = finished.output.decode(errors="replace")
    if finished.status != 0:
        said = printed.strip().splitlines() or ["no message"]
        raise ToolchainMissingError(
            f"{path} cannot read this machine code ({said[-1][:200]}). Install a newer one; "
            f"{HOW_TO_GET}."
        )
    return printed


@cache
def _disassembler() -> tuple[str, Sandbox]:
    """The disassembler, and the strongest containment in which it starts."""
    path = _found()
    if path is None:
        raise ToolchainMissingError(
            f"{DISASSEMBLER}, which shows a GPU's machine code, was not found: {HOW_TO_GET}."
        )
    home = Path(path).resolve().parent
    try:
        return path, find_sandbox((home,), [path, "--version"], _environment())
    except OSError as error:
        raise ToolchainMissingError(f"{path} cannot be started ({error}): {HOW_TO_GET}.") from error


def _found() -> str | None:
    """The first one found on PATH, in the toolkit's usual folder, or in Triton's package."""
    triton = importlib.util.find_spec("triton")
    folders = triton.submodule_search_locations if triton is not None else None
    places = [None, _USUAL, *(f"{folder}/{_IN_TRITON}" for folder in folders or ())]
    paths = (shutil.which(DISASSEMBLER, path=place) for place in places)
    return next((path for path in paths if path is not None), None)


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", "")}
