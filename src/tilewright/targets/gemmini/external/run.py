"""Runs a program on a real tool and reads its result, trusting nothing that it prints."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tilewright.core.records import ExternalResult, Failed
from tilewright.targets.gemmini.external.program import CorrectRun, Program, build_program
from tilewright.targets.gemmini.external.tools import Tool
from tilewright.targets.gemmini.source_rules import HEADERS
from tilewright.targets.gemmini.toolchain import find_toolchain

_MARK = "tilewright "
_MAX_OUTPUT_BYTES = 16 << 20
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
    """Build a kernel in a folder of its own and run it."""
    with tempfile.TemporaryDirectory(prefix=f"tilewright-{tool.name}-") as folder:
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
    with tempfile.TemporaryFile() as output:
        status = _run([*tool.command, str(program.elf)], output.fileno(), timeout_s, program.elf)
        output.seek(0)
        text = output.read(_MAX_OUTPUT_BYTES).decode(errors="replace")
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
    if tuple(hashes) != program.hashes:
        return Failed(
            "measure",
            "wrong_result",
            f"on {tool.name}, the arguments after the run are not those of the embedded simulator.",
        )
    return ExternalResult(
        simulator=tool.name,
        cycles=float(cycles) if tool.timed else None,
        instructions=float(instructions),
        wall_s=time.monotonic() - started,
    )


def _run(command: list[str], output: int, timeout_s: float, program: Path) -> int | None:
    """Exit status of a command in its own process group; None when it had to be killed."""
    try:
        process = subprocess.Popen(
            command,
            cwd=program.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=_limit_output,
        )
    except OSError as error:
        os.write(output, f"{command[0]} cannot be run: {error}".encode())
        return 127
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _kill_group(process)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Whatever the tool started ends with it, also when it ended by itself."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _limit_output() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_OUTPUT_BYTES, _MAX_OUTPUT_BYTES))


def _result(text: str, program: Program) -> list[int] | str:
    """Cycles, instructions and hashes of the program's line, or what is wrong with the output."""
    lines = [line[line.index(_MARK) :] for line in text.splitlines() if _MARK in line]
    if not lines:
        return "printed no result"
    numbers = [_numbers(line) for line in lines]
    own = [n for n in numbers if n and n[0] == program.nonce]
    if len(own) != len(lines):
        return "printed a result that is not of this program"
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
