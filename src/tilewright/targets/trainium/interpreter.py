"""The process that runs kernels on arrays. It has no expected results and returns only outputs.

It is a separate Python process, so it contains no data of the evaluating process. Each run is a
sandboxed child process with limits on time and memory. A request or an answer is a line of JSON.
The arrays are in memory that the evaluating process shares (`call_memory.py`), whose name is in the
request, so one process can run the kernels of several tasks.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Mapping
from typing import IO, Any

from tilewright.core.codec import from_json
from tilewright.core.records import Argument
from tilewright.parts.memory import keep_freed_memory
from tilewright.sandbox import call_contained
from tilewright.targets.trainium.call_memory import mapped_inputs, mapped_outputs, opened
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.machine import load_machine
from tilewright.targets.trainium.program import Call, parse, run_program

MOST_BYTES = 3 << 30
"""Maximum total memory of a run."""


def main() -> None:
    """Answer requests until there are no more."""
    keep_freed_memory()
    for line in sys.stdin.buffer:
        head = json.loads(line)
        with opened(head["files"]) as (given, written):
            answer = _answered(head, given, written)
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


def _answered(head: Mapping[str, Any], given: int, written: int) -> dict[str, Any]:
    def work() -> bytes:
        _limit(float(head["timeout_s"]))
        try:
            _run(head, given, written)
        except KernelError as error:
            return json.dumps([error.code, error.message, error.line, error.kind]).encode()
        return b""

    try:
        answer = call_contained(work)
    except OSError as error:
        late = f"status {-signal.SIGPROF}" in str(error)
        return {"ended": "late" if late else str(error)}
    return {"failed": json.loads(answer)} if answer else {}


def _run(head: Mapping[str, Any], given: int, written: int) -> None:
    """Run a kernel on the inputs and write its outputs, both in shared memory."""
    arguments: list[Argument] = [from_json(item) for item in head["arguments"]]
    call = Call(
        tuple(a for a in arguments if a.is_given),
        tuple(a for a in arguments if a.is_written),
        {name: _constant(value) for name, value in head["constants"].items()},
    )
    run_program(
        parse(head["source"]),
        call,
        load_machine(head["machine"]),
        mapped_inputs(call.inputs, given),
        into=mapped_outputs(call.outputs, written),
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


def read_answer(stream: IO[bytes]) -> dict[str, Any]:
    """One answer; `EOFError` if the process has ended."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    answer: dict[str, Any] = json.loads(line)
    return answer


if __name__ == "__main__":
    main()
