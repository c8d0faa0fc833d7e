"""Runs an interpreted kernel in a separate process, which returns only its outputs."""

from __future__ import annotations

import json
import subprocess
import sys
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
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


class Interpreter:
    """The process `interpreter.py`, which is started when it is first needed and ends with this
    object."""

    def __init__(self, memory: CallMemory) -> None:
        self._memory = memory
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        """The answer to a request; `OSError` or `EOFError` if there is none."""
        process = self._process
        if process is None or process.poll() is not None:
            process = self._process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        return read_answer(process.stdout)

    def _start(self) -> subprocess.Popen[bytes]:
        descriptors = self._memory.descriptors
        module = "tilewright.targets.trainium.interpreter"
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *map(str, descriptors)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=descriptors,
            start_new_session=True,
        )
        weakref.finalize(self, _end, process)
        return process


def _marked(value: object) -> object:
    """The value for JSON, which has no tuples; kernels may distinguish them from lists."""
    if isinstance(value, tuple):
        return {"tuple": [_marked(item) for item in value]}
    return [_marked(item) for item in value] if isinstance(value, list) else value


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.kill()
    process.wait()


@dataclass(frozen=True)
class Interpretation:
    """Calls a kernel on a machine, with arrays in `memory`. `timeout_s` limits the processor time
    of one run."""

    call: Call
    machine: Machine
    timeout_s: float
    memory: CallMemory

    @cached_property
    def interpreter(self) -> Interpreter:
        """The process, which is kept from run to run."""
        return Interpreter(self.memory)

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
            answer = self.interpreter.ask(head)
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
