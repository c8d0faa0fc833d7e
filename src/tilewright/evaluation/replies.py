"""Writes and reads the replies of evaluating processes on this machine, over ssh, and in a
cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.core import errors
from tilewright.core.codec import to_json
from tilewright.core.errors import InternalError, TilewrightError
from tilewright.core.records import EvaluationRequest, LatencyKind, Outcome, content_id
from tilewright.core.text import plain_text
from tilewright.evaluation.sent_outcome import read_outcome

MOST_MESSAGE = 5000
"""Maximum number of characters of a worker's error in a message."""


def ready_reply(context: str, versions: Mapping[str, str]) -> dict[str, Any]:
    """The reply of a worker that has opened a task with this context key; "" if it has not."""
    return {"ready": context, "versions": dict(versions)}


def error_reply(error: Exception) -> dict[str, Any]:
    """The reply for an exception that is not a failure of the candidate."""
    known = {"known": error.known} if isinstance(error, errors.NotTimedError) else {}
    return {"error": {"type": type(error).__name__, "message": str(error), **known}}


class ForgedError(Exception):
    """A reply that tilewright never sends, so the worker is under the control of something else.

    The text says what is wrong with the reply.
    """


def request_id(request: EvaluationRequest) -> str:
    """The id that a reply to this request repeats, so that no outcome is taken for that of another
    request.
    """
    limit = "" if request.limit_latency is None else repr(float(request.limit_latency))
    return content_id("request", *request.identity, limit, str(request.comparisons))


def outcome_reply(request: EvaluationRequest, outcome: Outcome) -> dict[str, Any]:
    """The reply with the outcome of a request."""
    return {"outcome": to_json(outcome), "request": request_id(request)}


def require_request(named: object, request: EvaluationRequest) -> None:
    """Raise `ValueError` if the request that a reply names is not this one."""
    if named != request_id(request):
        raise ValueError("an outcome belongs to another request")


def outcome_of(
    reply: Mapping[str, Any], latency: LatencyKind, request: EvaluationRequest
) -> Outcome:
    """The outcome in a reply; `ForgedError` if it contains none, one of another request, or one
    whose latency is not of the kind `latency`.
    """
    try:
        require_request(reply.get("request"), request)
        return read_outcome(reply["outcome"], latency)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ForgedError(str(error)[:MOST_MESSAGE]) from None


def is_tilewright_error(error: Mapping[str, Any]) -> bool:
    """Whether the worker's exception is a `TilewrightError`. Any other exception is a fault of the
    worker.
    """
    kind = getattr(errors, str(error["type"]), None)
    return isinstance(kind, type) and issubclass(kind, TilewrightError)


def raised(error: Mapping[str, Any]) -> TilewrightError:
    """The worker's exception, of the same class if it can be constructed from a message, without
    control characters.
    """
    kind = getattr(errors, str(error["type"])) if is_tilewright_error(error) else InternalError
    if kind is errors.UnknownNameError:
        kind = errors.InputError
    text = plain_text(str(error["message"])[:MOST_MESSAGE])
    if kind is errors.NotTimedError:
        return kind(text, plain_text(str(error.get("known", ""))[:MOST_MESSAGE]))
    error_of_worker: TilewrightError = kind(text)
    return error_of_worker
