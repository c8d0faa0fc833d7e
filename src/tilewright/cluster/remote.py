"""What a worker of a cluster does with a message: the one function that a search has it call.

A candidate runs where it does without a cluster: in an evaluating process of the local executor,
contained, and killed when it takes too long. The worker itself only passes messages on.
"""

from __future__ import annotations

import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tilewright.cluster.folders import unpacked
from tilewright.cluster.messages import (
    Answer,
    Broken,
    Evaluated,
    Missing,
    RaisedThere,
    Refused,
    TaskDescription,
    Unwanted,
    answer_bytes,
    read_request,
)
from tilewright.cluster.offers import versions_of
from tilewright.core.errors import TilewrightError
from tilewright.core.plugins import load_target
from tilewright.core.records import EvaluationRequest, Measured, Outcome
from tilewright.evaluation.local import LocalExecutor
from tilewright.evaluation.timeouts import StageTimeouts

MOST_OPEN = 4
"""Tasks that a worker keeps open: searches take turns on it, and each open task needs memory."""
MOST_KNOWN = 256
"""Descriptions of tasks that a worker remembers."""

_known: OrderedDict[str, TaskDescription] = OrderedDict()
_lock = threading.Lock()
_of_thread = threading.local()  # evaluating processes die with the thread that started them


class _UnwantedError(Exception):
    """Ends an evaluation that nobody waits for."""


def evaluate(message: bytes) -> bytes:
    """Answer one message of `messages`, in bytes; never raises.

    Its requests are evaluated one after another: a worker has one evaluating process.
    """
    try:
        answer = _answered(*read_request(message))
    except _UnwantedError:
        answer = Unwanted()
    except TilewrightError as error:
        answer = RaisedThere({"type": type(error).__name__, "message": str(error)})
    except Exception as error:
        answer = Broken(f"{type(error).__name__}: {error}", socket.gethostname())
    return answer_bytes(answer)


def _answered(
    digest: str, requests: Sequence[EvaluationRequest], description: TaskDescription | None
) -> Answer:
    description = _remembered(digest, description)
    if description is None:
        return Missing()
    opened = _opened(digest, description)
    if isinstance(opened, Refused):
        return opened
    wanted, took_s = _still_wanted(), dict[int, float]()

    def checkpoint() -> None:
        if not wanted():
            raise _UnwantedError

    def note(position: int, outcome: Outcome, wall_s: float, cached: bool) -> None:
        took_s[position] = wall_s

    host = socket.gethostname()
    outcomes = opened.evaluate(requests, note, checkpoint=checkpoint)
    return Evaluated([(_on(host, o), took_s[n]) for n, o in enumerate(outcomes)], host)


def _on(host: str, outcome: Outcome) -> Outcome:
    """The outcome; what was measured on hardware names the machine."""
    if isinstance(outcome, Measured) and outcome.quantity == "measured":
        return replace(outcome, versions={**outcome.versions, "host": host})
    return outcome


def _remembered(digest: str, description: TaskDescription | None) -> TaskDescription | None:
    with _lock:
        if description is not None and description.digest == digest:
            _known[digest] = description
            while len(_known) > MOST_KNOWN:
                _known.popitem(last=False)
        return _known.get(digest)


def _opened(digest: str, description: TaskDescription) -> LocalExecutor | Refused:
    """This thread's executor of a task, or the difference for which there is none."""
    tasks: OrderedDict[str, LocalExecutor] = _of_thread.__dict__.setdefault("tasks", OrderedDict())
    found = tasks.get(digest)
    if found is None:
        name, settings = _as_here(description)
        target = load_target(str(settings.get("target") or description.target))
        differences = _differences(description.versions, versions_of(target))
        if differences:
            return Refused(differences, socket.gethostname())
        timeouts = StageTimeouts(**description.timeouts)
        found = LocalExecutor(name, settings, 1, timeouts=timeouts)
        if found.context != description.context:
            found.close()
            what = {"task": ("another workload, reference or inputs", description.name)}
            return Refused(what, socket.gethostname())
        tasks[digest] = found
        while len(tasks) > MOST_OPEN:
            tasks.popitem(last=False)[1].close()
    tasks.move_to_end(digest)
    return found


def _as_here(description: TaskDescription) -> tuple[str, dict[str, object]]:
    """Name and settings of a task with the folder and the target's file as they lie here."""
    name, settings = description.name, dict(description.settings)
    if description.configuration:
        file = next(iter(description.configuration))
        settings["target"] = str(unpacked(description.configuration, "target") / file)
    if description.files:
        name = str(unpacked(description.files, name))
    return name, settings


def _differences(wanted: Mapping[str, str], here: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    names = sorted({*wanted, *here})
    pairs = {name: (wanted.get(name, "none"), here.get(name, "none")) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _still_wanted() -> Callable[[], bool]:
    """Whether the scheduler still wants what this thread computes: no search has given it up."""
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
