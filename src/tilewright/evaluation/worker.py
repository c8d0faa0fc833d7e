"""`python -m tilewright.evaluation.worker REQUESTS REPLIES PARENT`: evaluates until told to stop.

REQUESTS and REPLIES are descriptors of pipes that only the executor and this process hold; no
verdict travels over anything a candidate or compiler could write. The task is opened once, and its
inputs and expected outputs are kept. PARENT is the executor's process id: the worker dies with it.

Messages to the worker::

    {"open": {"task": ..., "settings": {...}}}                      -> {"ready": context key}
    {"evaluate": EvaluationRequest}      -> {"stage": ...} per stage, then {"outcome": Outcome}
    {"preflight": {}}                                               -> {"preflight": [AttackResult]}

Either may be answered by {"error": {"type": ..., "message": ...}}: an exception that is not about
the candidate. The end of REQUESTS ends the worker.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilewright.core.codec import from_json, to_json
from tilewright.core.errors import TilewrightError
from tilewright.core.records import AttackResult, EvaluationRequest, Failed, Outcome, Stage
from tilewright.core.roles import Containable, Task
from tilewright.core.tasks import open_task
from tilewright.evaluation.framing import MessageReader, write_message
from tilewright.evaluation.pipeline import context_key, evaluate
from tilewright.sandbox import contain_this_process

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Serve requests until the pipe closes."""
    requests, replies, parent = (int(a) for a in arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the executor's to handle
    die_with_parent(parent)
    reader = MessageReader(requests)
    server = _Server(replies)
    while True:
        try:
            message = reader.read()
        except EOFError:
            return
        server.serve(message)


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when `parent` ends, however it ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the line above
        sys.exit(1)


class _Server:
    def __init__(self, replies: int) -> None:
        self._replies = replies
        self._task: Task | None = None
        self._contained_by: str | None = None

    def serve(self, message: Mapping[str, Any]) -> None:
        """Answer one message."""
        try:
            if "open" in message:
                self._reply({"ready": self._open(**message["open"])})
            elif "preflight" in message:
                self._reply({"preflight": to_json(self._examine())})
            else:
                self._reply({"outcome": to_json(self._evaluate(from_json(message["evaluate"])))})
        except TilewrightError as error:
            self._reply({"error": {"type": type(error).__name__, "message": str(error)}})

    def _open(self, task: str, settings: Mapping[str, object]) -> str:
        opened = open_task(task, settings)
        self._task = opened.task
        key = context_key(opened.task, opened.target.versions())
        if isinstance(opened.task, Containable) and self._contained_by is None:
            self._contained_by = contain_this_process(Path(tempfile.gettempdir()))
        return key

    def _examine(self) -> list[AttackResult]:
        from tilewright.evaluation.preflight.examine import examine

        assert self._task is not None, "a task must be opened first"
        return examine(self._task)

    def _evaluate(self, request: EvaluationRequest) -> Outcome:
        assert self._task is not None, "a task must be opened first"
        stage: Stage = "build"

        def on_stage(begun: Stage) -> None:
            nonlocal stage
            stage = begun
            self._reply({"stage": begun})

        try:
            outcome = evaluate(self._task.evaluator, request, on_stage)
        except TilewrightError:
            raise
        except Exception:
            # One odd candidate must not end the run; the log leads to the defect.
            outcome = Failed(stage, "crash", traceback.format_exc())
        if self._contained_by is None:
            return outcome
        names = (outcome.sandbox, f"worker {self._contained_by}")
        return replace(outcome, sandbox=", ".join(filter(None, names)))

    def _reply(self, message: Mapping[str, Any]) -> None:
        write_message(self._replies, message)


if __name__ == "__main__":
    main(sys.argv[1:])
