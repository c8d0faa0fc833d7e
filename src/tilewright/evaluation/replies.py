"""What a worker replies, read: its outcome, or the error that it raised."""

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


class ForgedError(Exception):
    """A reply that no worker of ours gives: something has taken it over."""


def outcome_of(reply: Mapping[str, Any]) -> Outcome:
    """Of one evaluation; `ForgedError` where there is none."""
    try:
        return read_outcome(reply["outcome"])
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ForgedError from None


def raised(error: Mapping[str, Any]) -> TilewrightError:
    """The worker's exception, of the same class where it takes just a message, in plain text."""
    kind = getattr(errors, str(error["type"]), None)
    if not (isinstance(kind, type) and issubclass(kind, TilewrightError)):
        kind = InternalError
    if kind is errors.UnknownNameError:
        kind = errors.InputError
    text = plain_text(str(error["message"])[:MOST_MESSAGE])
    error_of_worker: TilewrightError = kind(text)
    return error_of_worker
