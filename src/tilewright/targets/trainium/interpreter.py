"""The process that runs kernels on arrays. It has no expected results and returns only outputs.

It is a separate Python process, so it contains no data of the evaluating process. Each run is a
sandboxed child process with limits on time and memory. A request or an answer consists of a line of
JSON with a number of bytes, followed by these bytes.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from tilewright.core.codec import from_json
from tilewright.core.records import Argument
from tilewright.parts.memory import keep_freed_memory
from tilewright.sandbox import call_contained
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.machine import load_machine
from tilewright.targets.trainium.program import Array, Call, argument_type, parse, run_program

MOST_BYTES = 3 << 30
"""Maximum total memory of a run."""


def main() -> None:
    """Answer requests until there are no more."""
    keep_freed_memory()
    incoming, outgoing = sys.stdin.buffer, sys.stdout.buffer
    while (line := incoming.readline()) != b"":
        _answer(json.loads(line), incoming, outgoing)


def _answer(head: Mapping[str, Any], incoming: IO[bytes], outgoing: IO[bytes]) -> None:
    """Answer one request. Nothing is kept, because outputs may have gigabytes."""
    answer, outputs = _answered(head, incoming.read(head["bytes"]))
    answer["bytes"] = len(outputs)
    outgoing.write(json.dumps(answer).encode() + b"\n")
    outgoing.write(outputs)
    outgoing.flush()


def _answered(head: Mapping[str, Any], data: bytes) -> tuple[dict[str, Any], memoryview]:
    def work() -> bytes | list[memoryview]:
        _limit(float(head["timeout_s"]))
        try:
            outputs = _outputs(head, data)
            return [memoryview(b"+"), *(o.reshape(-1).view(np.uint8).data for o in outputs)]
        except KernelError as error:
            failed = [error.code, error.message, error.line, error.kind]
            return b"-" + json.dumps(failed).encode()

    try:
        answer = call_contained(work)
    except OSError as error:
        late = f"status {-signal.SIGPROF}" in str(error)
        return {"ended": "late" if late else str(error)}, memoryview(b"")
    if answer[:1] == b"-":
        return {"failed": json.loads(answer[1:])}, memoryview(b"")
    return {}, memoryview(answer)[1:]


def _outputs(head: Mapping[str, Any], data: bytes) -> list[Array]:
    arguments: list[Argument] = [from_json(item) for item in head["arguments"]]
    call = Call(
        tuple(a for a in arguments if a.is_given),
        tuple(a for a in arguments if a.is_written),
        {name: _constant(value) for name, value in head["constants"].items()},
    )
    arrays, at = {}, 0
    for argument in call.inputs:
        dtype = argument_type(argument).exact
        count = int(np.prod(argument.shape))
        arrays[argument.name] = np.frombuffer(data, dtype, count, at).reshape(argument.shape)
        at += count * dtype.itemsize
    return run_program(
        parse(head["source"]),
        call,
        load_machine(head["machine"]),
        arrays,
        shuffle=head["shuffle"],
        elide_casts=head["elide_casts"],
        explain=head["explain"],
    )


def _constant(value: Any) -> Any:
    """A value that `Interpretation.run` encoded as JSON."""
    if isinstance(value, dict):
        return tuple(_constant(item) for item in value["tuple"])
    return [_constant(item) for item in value] if isinstance(value, list) else value


def _limit(timeout_s: float) -> None:
    """Limit the processor time and memory of this process, which ends with the run.

    The time of other processes is not counted, because it must not make a correct kernel fail.
    """
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, timeout_s)
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = MOST_BYTES if most == resource.RLIM_INFINITY else min(MOST_BYTES, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def read_answer(stream: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    """One answer; `EOFError` if the process has ended."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    head: dict[str, Any] = json.loads(line)
    return head, stream.read(int(head["bytes"]))


if __name__ == "__main__":
    main()
