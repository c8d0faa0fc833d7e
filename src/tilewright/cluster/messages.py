"""The messages between a search and the workers of a cluster, which are lists of the messages of
`worker.py`.

The messages are those that `evaluation.worker` describes, as JSON, and are checked by the receiver.
A worker receives a list of them, and answers with the list of the replies, in the same order::

    {"open": TaskDescription or its digest}     -> {"ready": context key, "versions": {...}},
                                                   {"ready": null}: it knows no such digest
    {"evaluate": EvaluationRequest}             -> {"outcome": Outcome, "request": id of the
                                                    request, "seconds": wall time}

The task is described if a worker does not know its digest. Further requests contain only the
digest. The list of replies ends early with an error, if the task differs from the described one,
and if the outcomes are no longer needed. Any other answer is a `GarbageError`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import NoReturn

from tilewright.core.codec import from_json, to_json
from tilewright.core.records import EvaluationRequest, LatencyKind, Outcome, content_id
from tilewright.core.text import plain_text
from tilewright.evaluation.replies import require_request
from tilewright.evaluation.sent_outcome import MOST_BYTES, read_outcome

MOST_SHOWN = 2000
"""Maximum number of characters of a name or a version from a worker."""
LONGEST_S = 1e6
"""Maximum wall-clock seconds of one evaluation in an answer. Real time limits are much lower."""


class GarbageError(Exception):
    """An answer that no worker of this version sends; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class TaskDescription:
    """The data with which a worker opens a task and verifies that it is the same task.

    `versions` are the versions that the worker must have. `context` is the hash of everything that
    determines an outcome, except the request. `timeouts` are wall-clock seconds by stage. `latency`
    is the kind of the target's latencies: an outcome with a latency of another kind is no answer.
    The versions with names in `ignored_versions` may differ: they are part of neither `versions`
    nor `context`.
    `files` are the files of a kernel folder, and `configuration` the file that describes a target,
    by name, in base64.
    """

    name: str
    target: str
    settings: Mapping[str, object]
    versions: Mapping[str, str]
    context: str
    timeouts: Mapping[str, float]
    latency: LatencyKind
    ignored_versions: Sequence[str] = field(default_factory=list)
    files: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The hash of the description."""
        return content_id(json.dumps(asdict(self), sort_keys=True))


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Outcomes in the order of the requests, with the seconds of each evaluation."""

    outcomes: Sequence[tuple[Outcome, float]]


@dataclass(frozen=True, slots=True)
class Missing:
    """The worker does not have the description of the task."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The worker has other versions; contains the versions of the run and of the worker, by
    name.
    """

    differences: Mapping[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class RaisedThere:
    """An exception that is not a failure of the candidate, with its class and its message."""

    error: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Unwanted:
    """The worker has cancelled the evaluation on request."""


Answer = Evaluated | Missing | Refused | RaisedThere | Unwanted


def request_bytes(opening: TaskDescription | str, requests: Sequence[EvaluationRequest]) -> bytes:
    """A message to a worker, with the task's description or its digest."""
    described = opening if isinstance(opening, str) else asdict(opening)
    evaluate = [{"evaluate": to_json(request)} for request in requests]
    return json.dumps([{"open": described}, *evaluate]).encode()


def read_request(message: bytes) -> tuple[TaskDescription | str, list[EvaluationRequest]]:
    """The inverse of `request_bytes`."""
    first, *rest = json.loads(message)
    opening = first["open"]
    if not isinstance(opening, str):
        opening = TaskDescription(**{**opening, "latency": LatencyKind(**opening["latency"])})
    return opening, [from_json(one["evaluate"]) for one in rest]


def read_answer(
    message: object, description: TaskDescription, requests: Sequence[EvaluationRequest]
) -> Answer:
    """Parse the answer of a worker to these requests.

    The versions in every answer are compared with those of the run. Raises `GarbageError` if the
    answer is not valid.
    """
    if not isinstance(message, bytes) or len(message) > MOST_BYTES:
        raise GarbageError("it does not contain the bytes of a message")
    try:
        replies = json.loads(message, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise GarbageError(f"it is not JSON ({error})") from None
    try:
        return _answer(replies, description, requests)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise GarbageError(f"{type(error).__name__}: {str(error)[:300]}") from None


def _answer(
    replies: object, description: TaskDescription, requests: Sequence[EvaluationRequest]
) -> Answer:
    match replies:
        case [{"ready": None}]:
            return Missing()
        case [*_, {"error": {"type": str(kind), "message": str(text)}}]:
            return RaisedThere({"type": kind, "message": text})
        case [{"ready": str(context), "versions": dict(versions)}, *outcomes]:
            differences = _differences(description, context, versions)
            if differences:
                return Refused(differences)
            if not outcomes:
                return Unwanted()
            if len(outcomes) != len(requests):
                raise ValueError(f"{len(outcomes)} outcomes of {len(requests)} requests")
            pairs = zip(outcomes, requests, strict=True)
            return Evaluated(tuple(_evaluated(o, r, description.latency) for o, r in pairs))
    raise TypeError("it is not a list of replies")


def _differences(
    description: TaskDescription, context: str, versions: Mapping[str, object]
) -> dict[str, tuple[str, str]]:
    wanted = description.versions
    there = {_shown(name): _shown(version) for name, version in versions.items()}
    pairs = {n: (wanted.get(n, "none"), there.get(n, "none")) for n in sorted({*wanted, *there})}
    found = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if not found and context != description.context:
        return {
            "task": (
                description.name,
                "the workload, the reference or the inputs under this name differ",
            )
        }
    return found


def _evaluated(
    reply: object, request: EvaluationRequest, latency: LatencyKind
) -> tuple[Outcome, float]:
    match reply:
        case {"outcome": outcome, "request": named, "seconds": float(took_s)} if (
            0 <= took_s <= LONGEST_S
        ):
            require_request(named, request)
            return read_outcome(outcome, latency), took_s
    raise TypeError("an outcome must contain its request and its duration in seconds")


def _shown(value: object) -> str:
    """A name or a version, which is shown to the user."""
    if not isinstance(value, str):
        raise TypeError("a name is not a string")
    return plain_text(value[:MOST_SHOWN])


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")
