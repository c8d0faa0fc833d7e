"""What a worker replies, read: its outcome, or the error that it raised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.core import errors
from tilewright.core.codec import from_json
from tilewright.core.errors import InternalError, TilewrightError
from tilewright.core.records import Failed, Measured, Outcome


class ForgedError(Exception):
    """A reply that no worker of ours gives: something has taken it over."""


def outcome_of(reply: Mapping[str, Any]) -> Outcome:
    """Of one evaluation; `ForgedError` where there is none."""
    try:
        found = from_json(reply["outcome"])
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ForgedError from None
    if not isinstance(found, (Measured, Failed)):
        raise ForgedError
    return found


def raised(error: Mapping[str, str]) -> TilewrightError:
    """The worker's exception, of the same class where it takes just a message."""
    kind = getattr(errors, str(error["type"]), None)
    if not (isinstance(kind, type) and issubclass(kind, TilewrightError)):
        kind = InternalError
    if kind is errors.UnknownNameError:
        kind = errors.InputError
    error_of_worker: TilewrightError = kind(error["message"])
    return error_of_worker
