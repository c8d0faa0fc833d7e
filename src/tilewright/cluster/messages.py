"""What a search and the workers of a cluster tell each other: JSON, checked where it arrives.

To a worker::

    {"task": digest, "evaluate": [EvaluationRequest], "description": TaskDescription or null}

Its answer is one of::

    {"outcomes": [[Outcome, seconds]], "host": name}    one for each request, in their order
    {"missing": digest}           it has no description with this digest: send it once more, with it
    {"refused": {name: [the run's version, the worker's version]}}
    {"error": {"type": ..., "message": ...}}    an exception that is not about the candidate
    {"broken": text}                            the worker itself is at fault
    {"unwanted": true}                          nobody waits for the outcome any more

Whatever else arrives is no answer (`GarbageError`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

from tilewright.core.codec import from_json, to_json
from tilewright.core.records import EvaluationRequest, Outcome, content_id
from tilewright.core.text import plain_text
from tilewright.evaluation.sent_outcome import MOST_BYTES, read_outcome

MOST_SHOWN = 2000
"""Characters of a name or a sentence of a worker."""
LONGEST_S = 1e6
"""Wall seconds of one evaluation; its time limits end it long before."""


class GarbageError(Exception):
    """An answer that no worker of this version gives; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class TaskDescription:
    """All that a worker needs to open a task, and to tell that it is the same one.

    `versions` are those that the worker must have too, `context` the content hash of all that
    decides an outcome but the request, `timeouts` wall seconds by stage. `files` are those of a
    kernel folder, `configuration` that of a target which a file describes, by name, in base64.
    """

    name: str
    target: str
    settings: Mapping[str, object]
    versions: Mapping[str, str]
    context: str
    timeouts: Mapping[str, float]
    files: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Content hash."""
        return content_id(json.dumps(asdict(self), sort_keys=True))


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Outcomes in the order of the requests, how long each took, and the name of the machine."""

    outcomes: Sequence[tuple[Outcome, float]]
    host: str


@dataclass(frozen=True, slots=True)
class Missing:
    """The worker does not know the task yet."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The worker would evaluate under other versions: the run's and its own, by name."""

    differences: Mapping[str, tuple[str, str]]
    host: str


@dataclass(frozen=True, slots=True)
class RaisedThere:
    """An exception that is not the candidate's: its class and its message."""

    error: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Broken:
    """The worker could not do its work."""

    text: str
    host: str


@dataclass(frozen=True, slots=True)
class Unwanted:
    """The worker was told to give up."""


Answer = Evaluated | Missing | Refused | RaisedThere | Broken | Unwanted


def request_bytes(
    digest: str, requests: Sequence[EvaluationRequest], description: TaskDescription | None
) -> bytes:
    """A message to a worker."""
    described = asdict(description) if description else None
    plain = [to_json(request) for request in requests]
    message = {"task": digest, "evaluate": plain, "description": described}
    return json.dumps(message).encode()


def read_request(message: bytes) -> tuple[str, list[EvaluationRequest], TaskDescription | None]:
    """What `request_bytes` was given."""
    found = json.loads(message)
    described = found["description"]
    description = TaskDescription(**described) if described else None
    return found["task"], [from_json(plain) for plain in found["evaluate"]], description


def answer_bytes(answer: Answer) -> bytes:
    """A message of a worker."""
    return json.dumps(_plain(answer)).encode()


def _plain(answer: Answer) -> dict[str, Any]:
    match answer:
        case Evaluated(outcomes, host):
            return {"outcomes": [[to_json(o), took_s] for o, took_s in outcomes], "host": host}
        case Missing():
            return {"missing": True}
        case Refused(differences, host):
            return {"refused": {k: list(v) for k, v in differences.items()}, "host": host}
        case RaisedThere(error):
            return {"error": dict(error)}
        case Broken(text, host):
            return {"broken": text, "host": host}
        case Unwanted():
            return {"unwanted": True}


def read_answer(message: object, requests: int) -> Answer:
    """What a worker answered to so many requests; `GarbageError` for what is no answer to them."""
    if not isinstance(message, bytes) or len(message) > MOST_BYTES:
        raise GarbageError("it is not the bytes of a message")
    try:
        found = json.loads(message, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise GarbageError(f"it is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise GarbageError("it is no JSON object")
    try:
        answer = _answer(found)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise GarbageError(f"{type(error).__name__}: {str(error)[:300]}") from None
    if isinstance(answer, Evaluated) and len(answer.outcomes) != requests:
        raise GarbageError(f"{len(answer.outcomes)} outcomes of {requests} requests")
    return answer


def _answer(found: dict[str, Any]) -> Answer:
    host = _text(found.pop("host", ""))
    match found:
        case {"outcomes": list(outcomes)}:
            return Evaluated(tuple(map(_evaluated, outcomes)), host)
        case {"missing": True}:
            return Missing()
        case {"refused": dict(differences)} if differences:
            return Refused({_text(k): _two(v) for k, v in differences.items()}, host)
        case {"error": {"type": str(kind), "message": str(text)}}:
            return RaisedThere({"type": kind, "message": text})
        case {"broken": str(text)}:
            return Broken(_text(text), host)
        case {"unwanted": True}:
            return Unwanted()
    raise TypeError(f"no answer has the fields {sorted(found)}")


def _evaluated(value: object) -> tuple[Outcome, float]:
    match value:
        case [dict(outcome), float(took_s)] if 0 <= took_s <= LONGEST_S:
            return read_outcome(outcome), took_s
    raise TypeError("an outcome comes with its seconds")


def _two(value: object) -> tuple[str, str]:
    match value:
        case [str(first), str(second)]:
            return _text(first), _text(second)
    raise TypeError("a difference has two versions")


def _text(value: object) -> str:
    """A name or a sentence, which is shown to the user."""
    if not isinstance(value, str):
        raise TypeError("a name is text")
    return plain_text(value[:MOST_SHOWN])


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
