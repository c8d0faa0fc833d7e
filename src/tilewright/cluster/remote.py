"""The function that workers of a cluster call for each message of a search.

As without a cluster, a candidate runs in an evaluating process of the local executor, which is
sandboxed and killed when it takes too long. The worker itself only passes messages on.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tilewright.cluster.folders import unpacked
from tilewright.cluster.messages import TaskDescription, read_request
from tilewright.core.plugins import load_target
from tilewright.core.records import EvaluationRequest, Measured, Outcome
from tilewright.core.tasks import target_versions, versions_without
from tilewright.evaluation.local import LocalExecutor
from tilewright.evaluation.replies import error_reply, outcome_reply, ready_reply
from tilewright.evaluation.timeouts import StageTimeouts

MOST_OPEN = 4
"""Maximum number of tasks that a worker keeps open for different searches, because each open task
needs memory.
"""
MOST_KNOWN = 256
"""Maximum number of descriptions of tasks that a worker stores."""

_known: OrderedDict[str, TaskDescription] = OrderedDict()
_lock = threading.Lock()
_of_thread = threading.local()  # evaluating processes die with the thread that started them


class _UnwantedError(Exception):
    """Ends an evaluation whose outcome is no longer needed."""


def evaluate(message: bytes) -> bytes:
    """Answer one message of `messages`, in bytes; never raises.

    Its requests are evaluated one after another, because a worker has one evaluating process.
    """
    try:
        replies = _replies(*read_request(message))
    except Exception as error:
        replies = [error_reply(error)]
    return json.dumps(replies).encode()


def _replies(
    opening: TaskDescription | str, requests: Sequence[EvaluationRequest]
) -> list[dict[str, Any]]:
    digest, description = _remembered(opening)
    if description is None:
        return [{"ready": None}]
    executor, versions = _opened(digest, description)
    if executor is None:
        return [ready_reply("", versions)]
    ready = ready_reply(executor.context, versions)
    if executor.context != description.context:
        return [ready]
    wanted, took_s = _still_wanted(), dict[int, float]()

    def checkpoint() -> None:
        if not wanted():
            raise _UnwantedError

    def note(position: int, outcome: Outcome, wall_s: float, cached: bool) -> None:
        took_s[position] = wall_s

    try:
        outcomes = executor.evaluate(requests, note, checkpoint=checkpoint)
    except _UnwantedError:
        return [ready]
    replies = [
        {**outcome_reply(request, _on(socket.gethostname(), outcome)), "seconds": took_s[number]}
        for number, (request, outcome) in enumerate(zip(requests, outcomes, strict=True))
    ]
    return [ready, *replies]


def _on(host: str, outcome: Outcome) -> Outcome:
    """The outcome. If it was measured on hardware, its versions contain the name of the machine."""
    if isinstance(outcome, Measured) and outcome.quantity == "measured":
        return replace(outcome, versions={**outcome.versions, "host": host})
    return outcome


def _remembered(opening: TaskDescription | str) -> tuple[str, TaskDescription | None]:
    with _lock:
        if isinstance(opening, str):
            return opening, _known.get(opening)
        digest = opening.digest
        _known[digest] = opening
        while len(_known) > MOST_KNOWN:
            _known.popitem(last=False)
        return digest, opening


def _opened(
    digest: str, description: TaskDescription
) -> tuple[LocalExecutor | None, Mapping[str, str]]:
    """This thread's executor of a task, and the versions on this machine. The executor is None if
    these differ from those of the run.
    """
    tasks: OrderedDict[str, LocalExecutor] = _of_thread.__dict__.setdefault("tasks", OrderedDict())
    if digest not in tasks:
        name, settings = _as_here(description)
        target = load_target(str(settings.get("target") or description.target))
        versions = versions_without(target_versions(target), description.ignored_versions)
        if versions != description.versions:
            return None, versions
        timeouts = StageTimeouts(**description.timeouts)
        tasks[digest] = LocalExecutor(
            name, settings, 1, timeouts=timeouts, ignored_versions=description.ignored_versions
        )
        while len(tasks) > MOST_OPEN:
            tasks.popitem(last=False)[1].close()
    tasks.move_to_end(digest)
    return tasks[digest], description.versions


def _as_here(description: TaskDescription) -> tuple[str, dict[str, object]]:
    """Name and settings of a task with the paths that its folder and the target's file have on this
    machine.
    """
    name, settings = description.name, dict(description.settings)
    if description.configuration:
        file = next(iter(description.configuration))
        settings["target"] = str(unpacked(description.configuration, "target") / file)
    if description.files:
        name = str(unpacked(description.files, name))
    return name, settings


def _still_wanted() -> Callable[[], bool]:
    """Whether the scheduler still needs the result of this thread, because no search has cancelled
    it."""
    try:
        from distributed import get_worker

        worker = get_worker()
        key = worker.get_current_task()
    except (ImportError, ValueError, KeyError):  # called without a cluster, by a test
        return lambda: True
    return partial(_is_executing, worker.state.tasks, key)


def _is_executing(tasks: Mapping[str, object], key: str) -> bool:
    state = getattr(tasks.get(key), "state", "forgotten")
    return state == "executing"
