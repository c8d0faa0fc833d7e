"""Runs a program on an external tool and checks the result that it prints."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from tilewright.core.records import ExternalResult, Failed
from tilewright.sandbox import UNCONTAINED, Limits, Sandbox, find_sandbox, open_folder
from tilewright.targets.gemmini.external.program import CorrectRun, Program, build_program
from tilewright.targets.gemmini.external.tools import Tool
from tilewright.targets.gemmini.source_rules import HEADERS
from tilewright.targets.gemmini.toolchain import find_toolchain

_MARK = "tilewright "
_VALUES = "tilewright-values "
_MAX_OUTPUT_BYTES = 16 << 20
_MAX_MEMORY_BYTES = 64 << 30
_PASSED_ON = ("PATH", "HOME", "LD_LIBRARY_PATH", "RISCV")
_SHOWN_CHARACTERS = 2000


def run_source(
    tool: Tool,
    source: str,
    configuration: str,
    correct: CorrectRun,
    timeout_s: float,
    compile_timeout_s: float,
    headers: Sequence[str] = HEADERS,
) -> ExternalResult | Failed:
    """Build a kernel in a separate folder and run it."""
    with open_folder(f"tilewright-{tool.name}-") as folder:
        program = build_program(
            find_toolchain(),
            source,
            configuration,
            correct,
            Path(folder),
            compile_timeout_s,
            headers,
        )
        return program if isinstance(program, Failed) else run_tool(tool, program, timeout_s)


def run_tool(tool: Tool, program: Program, timeout_s: float) -> ExternalResult | Failed:
    """The result, or a failure of stage "measure".

    `timeout`: it did not end in time and its process group was killed. `no_result`: it ended
    without this program's line, or with more than one. `wrong_result`, `input_modified`: the
    arguments' hashes are not the expected ones.
    """
    started = time.monotonic()
    status, output = _run(tool, program.elf, timeout_s)
    text = output.decode(errors="replace")
    if status is None:
        return Failed("measure", "timeout", f"{tool.name} was stopped after {timeout_s:g} s.")
    numbers = _result(text, program)
    if isinstance(numbers, str):
        shown = text.strip()[-_SHOWN_CHARACTERS:] or "nothing"
        return Failed(
            "measure",
            "no_result",
            f"{tool.name} ended with status {status} and {numbers}. It printed:\n{shown}",
        )
    cycles, instructions, *hashes = numbers
    wrong = _difference(hashes, text, program)
    if wrong is not None:
        return Failed("measure", "wrong_result", f"on {tool.name}, {wrong}.")
    return ExternalResult(
        simulator=tool.name,
        latency=float(cycles) if tool.timed else None,
        instructions=float(instructions),
        wall_s=time.monotonic() - started,
    )


def _difference(hashes: list[int], text: str, program: Program) -> str | None:
    """The difference of the arguments after the run from the expected ones, which is compared
    exactly, or within the tolerance if this is allowed.
    """
    correct = program.correct
    rows = zip(hashes, program.hashes, correct.within_tolerance, strict=True)
    if any(got != wanted for got, wanted, by_value in rows if not by_value):
        return "the arguments after the run are not those of the embedded simulator"
    if not any(correct.within_tolerance):
        return None
    final = list(correct.final)
    for i, by_value in enumerate(correct.within_tolerance):
        if by_value:
            printed = _values(text, program.nonce, i)
            if printed is None or len(printed) != len(final[i]) + -len(final[i]) % 8:
                return f"the values of argument {i} were not printed completely"
            final[i] = printed[: len(final[i])]
    return correct.mismatch(final)


def _values(text: str, nonce: int, index: int) -> bytes | None:
    """The bytes of an argument that the program printed, if it printed them exactly once."""
    lines = [line[line.index(_VALUES) :] for line in text.splitlines() if _VALUES in line]
    found = [n[2:] for n in map(_numbers, lines) if n[:2] == [nonce, index]]
    if len(found) != 1 or any(word >> 64 for word in found[0]):
        return None
    return b"".join(word.to_bytes(8, "little") for word in found[0])


def _run(tool: Tool, program: Path, timeout_s: float) -> tuple[int | None, bytes]:
    """The exit status of the tool, or None if it was killed, and its output. A program can access
    files of the host through these tools (HTIF's system calls), so the tools may write only to the
    program's folder. A user's script that accesses an FPGA is not sandboxed.
    """
    command = [*tool.command, str(program)]
    limits = Limits(
        timeout_s,
        memory_bytes=_MAX_MEMORY_BYTES,
        total_memory_bytes=_MAX_MEMORY_BYTES,
        file_bytes=_MAX_OUTPUT_BYTES,
        processes=1024,
        open_files=1024,
        output_bytes=_MAX_OUTPUT_BYTES,
    )
    readable = (Path("/"), Path(tool.command[0]).parent)
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    sandbox = find_sandbox(readable, own_user=False) if tool.contained else Sandbox(UNCONTAINED)
    try:
        finished = sandbox.run(command, program.parent, limits, environment)
    except OSError as error:
        return 127, f"{command[0]} cannot be run: {error}".encode()
    return finished.status, finished.output


def _result(text: str, program: Program) -> list[int] | str:
    """The cycles, instructions and hashes in the line that the program printed, or the mistake in
    its output.
    """
    lines = [line[line.index(_MARK) :] for line in text.splitlines() if _MARK in line]
    if not lines:
        return "printed no result"
    numbers = [_numbers(line) for line in lines]
    own = [n for n in numbers if n and n[0] == program.nonce]
    if len(own) != len(lines):
        return "printed a result of another program"
    if len(own) > 1:
        return "printed more than one result"
    if len(own[0]) != 3 + len(program.hashes):
        return "printed an incomplete result"
    return own[0][1:]


def _numbers(line: str) -> list[int]:
    try:
        return [int(word, 16) for word in line.split()[1:]]
    except ValueError:
        return []
