"""Runs an interpreted kernel in a separate process, which returns only its outputs."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tilewright.core.codec import to_json
from tilewright.core.records import Failed, FailureKind, Stage
from tilewright.core.roles import Data
from tilewright.targets.trainium.call_memory import CallMemory
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.interpreter import read_answer
from tilewright.targets.trainium.machine import Machine
from tilewright.targets.trainium.program import Array, Call

_KINDS: dict[str, FailureKind] = {
    "num_partition_exceed_arch_limit": "limit_exceeded",
    "size_of_dimension_exceed_arch_limit": "limit_exceeded",
    "out_of_memory": "limit_exceeded",
    "too_large": "limit_exceeded",
    "tensor_access_out_of_bound": "illegal_address",
    "cannot_update_immutable_parameter": "input_modified",
    "import_not_allowed": "forbidden_call",
}


def failed_by(error: KernelError, stage: Stage = "build") -> Failed:
    """The failure record of a kernel that breaks a rule."""
    kind = error.kind if error.kind != "compile_error" else _KINDS.get(error.code, error.kind)
    return Failed(stage, kind, f"{error}.", error.line)


_idle: list[tuple[int, subprocess.Popen[bytes]]] = []
"""The processes `interpreter.py` that wait for a request, each with the id of the process that
started it. They are used again by other tasks, because starting one takes 0.3 s."""


def _ask(request: Mapping[str, object]) -> dict[str, Any]:
    """An interpreter's answer to a request; `OSError` or `EOFError` if there is none."""
    process = _interpreter()
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        answer = read_answer(process.stdout)
    except BaseException:
        _end(process)
        raise
    _idle.append((os.getpid(), process))
    return answer


def _interpreter() -> subprocess.Popen[bytes]:
    """A process that waits, or a new one. A process that this one was forked from keeps its own."""
    while _idle:
        starter, process = _idle.pop()
        if starter == os.getpid():
            if process.poll() is None:
                return process
            _end(process)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "tilewright.targets.trainium.interpreter"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


@atexit.register
def _end_idle() -> None:
    for starter, process in _idle:
        if starter == os.getpid():
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):  # it did not read the request
                stream.close()
    process.kill()
    process.wait()


def _marked(value: object) -> object:
    """The value for JSON, which has no tuples; kernels may distinguish them from lists."""
    if isinstance(value, tuple):
        return {"tuple": [_marked(item) for item in value]}
    return [_marked(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class Interpretation:
    """Calls a kernel on a machine, with arrays in `memory`. `timeout_s` limits the processor time
    of one run."""

    call: Call
    machine: Machine
    timeout_s: float
    memory: CallMemory

    def run(
        self,
        source: str,
        arrays: Mapping[str, Array],
        *,
        shuffle: int | None = None,
        elide_casts: bool = False,
        explain: bool = False,
    ) -> dict[str, Data] | Failed:
        """The bytes of each output by name, in the type of the argument. They change with the next
        run.

        With `explain`, undefined elements of an output are a failure with the line of their cause.
        """
        call = self.call
        given = {a.name for a in call.inputs}
        more = [a for a in call.outputs if a.name not in given]
        head = {
            "files": self.memory.files,
            "source": source,
            "arguments": [to_json(a) for a in (*call.inputs, *more)],
            "constants": {name: _marked(value) for name, value in call.constants.items()},
            "machine": self.machine.name,
            "shuffle": shuffle,
            "elide_casts": elide_casts,
            "explain": explain,
            "timeout_s": self.timeout_s,
        }
        try:
            self.memory.give(arrays)
            answer = _ask(head)
        except (OSError, EOFError) as error:
            return Failed("check", "crash", f"the interpreter ended: {type(error).__name__}.")
        if "failed" in answer:
            code, message, line, kind = answer["failed"]
            return failed_by(KernelError(code, message, line, kind), "check")
        if answer.get("ended") == "late":
            return Failed(
                "check",
                "timeout",
                f"the kernel was stopped after {self.timeout_s:g} s of processor time.",
            )
        if "ended" in answer:
            return Failed("check", "crash", f"the run ended: {answer['ended']}.")
        return self.memory.outputs()
