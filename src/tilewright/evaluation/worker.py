"""`python -m tilewright.evaluation.worker DESCRIPTOR [PARENT]`: evaluates until told to stop.

DESCRIPTOR is one end of a channel to which only the executor and this process have access, so
neither a candidate nor a compiler can write a verdict. The task is opened once, and its inputs and
expected outputs are kept. PARENT is the executor's process id. When the executor ends, the worker
ends too; a worker without PARENT is ended by the server that forked it.

Messages to the worker::

    {"open": {"task": ..., "settings": {...}}}      -> {"ready": context key, "versions": {...}}
             with "ignored_versions": names of versions that are not part of the context key
    {"evaluate": EvaluationRequest}      -> {"stage": ...} per stage, then
                                            {"outcome": Outcome, "request": id of the request}
    {"build": Candidate}                                            -> {"problem": Failed or null}
    {"code": source}                             -> {"code": CompiledCode, Failed or null: cannot}
    {"model": source}                      -> {"modelled": Measured, Failed or null: not modelled}
    {"preflight": {}}                                               -> {"preflight": [AttackResult]}

The answer to any message may be {"error": {"type": ..., "message": ...}}, which is an exception
that is not a failure of the candidate. The worker ends when the channel is closed.

Workers on other machines receive the same messages: one in each line over ssh (`relay.py`), and in
lists in a cluster (`cluster/messages.py`), where a task is described in more detail.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from tilewright.core.codec import from_json, to_json
from tilewright.core.compiled_code import CompiledCode
from tilewright.core.errors import InputError, TilewrightError, UndeclaredFailureError
from tilewright.core.records import (
    AttackResult,
    Candidate,
    EvaluationRequest,
    Failed,
    Measured,
    Outcome,
    Stage,
)
from tilewright.core.roles import Containable, ModelsLatency, ShowsCode, Target, Task
from tilewright.core.tasks import open_task, target_versions, versions_without
from tilewright.evaluation.disk import require_room
from tilewright.evaluation.pipeline import context_key, evaluate, problem
from tilewright.evaluation.replies import error_reply, outcome_reply, ready_reply
from tilewright.parts.memory import keep_freed_memory
from tilewright.sandbox import contain_this_process
from tilewright.sandbox.child import Channel

_PR_SET_PDEATHSIG = 1
Found = TypeVar("Found")


def main(arguments: list[str]) -> None:
    """Serve requests until the channel closes."""
    descriptor, *parent = (int(a) for a in arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the executor handles Ctrl-C
    if parent:
        die_with_parent(*parent)
    keep_freed_memory()
    channel = Channel(descriptor)
    server = _Server(channel)
    for message in channel.each_json():
        server.serve(message)


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when `parent` ends, however it ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the line above
        sys.exit(1)


Record = TypeVar("Record")


def _record(value: object, kind: type[Record]) -> Record:
    """The record in a request; `InputError` if it is not a record of this class."""
    try:
        found = from_json(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"a request is not of the type {kind.__name__}: {error}.") from error
    if not isinstance(found, kind):
        raise InputError(f"a request is not of the type {kind.__name__}, but {str(value)[:60]!r}.")
    return found


def _opened(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) - {"ignored_versions"} != {"task", "settings"}:
        raise InputError(
            "a request to open a task must contain the task and its settings, and may contain "
            "names of versions that are not compared (ignored_versions), and nothing else."
        )
    return value


class _Server:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._task: Task | None = None
        self._target: Target | None = None
        self._contained_by: str | None = None

    def serve(self, message: Mapping[str, Any]) -> None:
        """Answer one message."""
        try:
            if "open" in message:
                key, versions = self._open(**_opened(message["open"]))
                self._reply(ready_reply(key, versions))
            elif "preflight" in message:
                self._reply({"preflight": to_json(self._examine())})
            elif "code" in message:
                self._reply({"code": to_json(self._code(message["code"]))})
            elif "model" in message:
                self._reply({"modelled": to_json(self._modelled(message["model"]))})
            elif "build" in message:
                self._reply({"problem": to_json(self._build(_record(message["build"], Candidate)))})
            elif "evaluate" in message:
                request = _record(message["evaluate"], EvaluationRequest)
                self._reply(outcome_reply(request, self._evaluate(request)))
            else:
                raise InputError(
                    f"a request contains {', '.join(map(repr, list(message)[:3])) or 'nothing'}. "
                    "Give one of open, evaluate, build, code, model and preflight."
                )
        except TilewrightError as error:
            self._reply(error_reply(error))

    def _open(
        self, task: str, settings: Mapping[str, object], ignored_versions: Collection[str] = ()
    ) -> tuple[str, Mapping[str, str]]:
        opened = open_task(task, settings)
        self._task, self._target = opened.task, opened.target
        versions = target_versions(opened.target)
        key = context_key(opened.task, versions_without(opened.target.versions(), ignored_versions))
        if isinstance(opened.task, Containable) and self._contained_by is None:
            self._contained_by = contain_this_process(Path(tempfile.gettempdir()))
        return key, versions

    def _kinds(self) -> Collection[str]:
        assert self._target is not None, "a request to open a task must come first"
        return self._target.brief().failure_kinds

    def _examine(self) -> list[AttackResult]:
        from tilewright.evaluation.preflight.examine import examine

        assert self._task is not None, "a request to open a task must come first"
        return examine(self._task, self._kinds)

    def _evaluate(self, request: EvaluationRequest) -> Outcome:
        assert self._task is not None, "a request to open a task must come first"
        stage: Stage = "build"

        def on_stage(begun: Stage) -> None:
            nonlocal stage
            stage = begun
            self._reply({"stage": begun})

        evaluator = self._task.evaluator
        outcome = _carried_out(
            lambda: evaluate(evaluator, request, on_stage, self._kinds), lambda: stage
        )
        if self._contained_by is None:
            return outcome
        names = (outcome.sandbox, f"worker {self._contained_by}")
        return replace(outcome, sandbox=", ".join(filter(None, names)))

    def _build(self, candidate: Candidate) -> Failed | None:
        task = self._task
        assert task is not None, "a request to open a task must come first"
        return _carried_out(lambda: problem(task, candidate, self._kinds), lambda: "build")

    def _code(self, source: str) -> CompiledCode | Failed | None:
        task = self._task
        if not isinstance(task, ShowsCode):
            return None
        return _carried_out(lambda: task.code(source), lambda: "build")

    def _modelled(self, source: str) -> Measured | Failed | None:
        task = self._task
        if not isinstance(task, ModelsLatency):
            return None
        return _carried_out(lambda: task.modelled(source), lambda: "measure")

    def _reply(self, message: Mapping[str, Any]) -> None:
        self._channel.send_json(message)


def _carried_out(work: Callable[[], Found], stage: Callable[[], Stage]) -> Found | Failed:
    """The outcome of a candidate. An unexpected exception becomes a failure, so that it does not
    end the run.

    If the disk is full, a failure raises `DiskFullError` instead, because the candidate may not
    have caused it.
    """
    found = _outcome_of(work, stage)
    if isinstance(found, Failed):
        require_room()
    return found


def _outcome_of(work: Callable[[], Found], stage: Callable[[], Stage]) -> Found | Failed:
    try:
        return work()
    except UndeclaredFailureError as error:
        return Failed(stage(), "crash", str(error))
    except TilewrightError:
        raise
    except Exception:
        return Failed(stage(), "crash", traceback.format_exc())  # the log helps to find the defect


if __name__ == "__main__":
    main(sys.argv[1:])
