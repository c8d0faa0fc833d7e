"""What an evaluating process replies, written and read: here, over ssh and in a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.core import errors
from tilewright.core.errors import InternalError, TilewrightError
from tilewright.core.records import Outcome
from tilewright.core.text import plain_text
from tilewright.evaluation.sent_outcome import read_outcome

MOST_MESSAGE = 5000
"""Characters of an error of a worker that are repeated."""


def ready_reply(context: str, versions: Mapping[str, str]) -> dict[str, Any]:
    """Of a worker that has opened a task under a context key, or "" where it has not."""
    return {"ready": context, "versions": dict(versions)}


def error_reply(error: Exception) -> dict[str, Any]:
    """An exception that is not about the candidate."""
    return {"error": {"type": type(error).__name__, "message": str(error)}}


class ForgedError(Exception):
    """A reply that no worker of ours gives: something has taken it over."""


def outcome_of(reply: Mapping[str, Any]) -> Outcome:
    """Of one evaluation; `ForgedError` where there is none."""
    try:
        return read_outcome(reply["outcome"])
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ForgedError from None


def is_ours(error: Mapping[str, Any]) -> bool:
    """Whether the worker's exception is one of tilewright; any other is a fault of the worker."""
    kind = getattr(errors, str(error["type"]), None)
    return isinstance(kind, type) and issubclass(kind, TilewrightError)


def raised(error: Mapping[str, Any]) -> TilewrightError:
    """The worker's exception, of the same class where it takes just a message, in plain text."""
    kind = getattr(errors, str(error["type"])) if is_ours(error) else InternalError
    if kind is errors.UnknownNameError:
        kind = errors.InputError
    text = plain_text(str(error["message"])[:MOST_MESSAGE])
    error_of_worker: TilewrightError = kind(text)
    return error_of_worker
