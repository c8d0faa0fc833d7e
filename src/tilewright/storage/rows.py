"""Converts rows of the database to records and checks each value, because a project may come from
somebody else.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sqlalchemy import Row

from tilewright.core.codec import from_json, outcome_from_json
from tilewright.core.errors import StorageError
from tilewright.core.field_types import require_types
from tilewright.core.records import Candidate, Outcome, Plan, RunRecord, Trial
from tilewright.core.run_notes import Note

MAX_ARTIFACT = 64 << 20
"""Maximum number of bytes of one uncompressed artifact, which is the limit for an object file. A
source has at most one MiB.
"""
_T = TypeVar("_T")
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}", re.ASCII)


def run_of(row: Row[Any]) -> RunRecord:
    """The run in a row of `runs`; `StorageError` if the row is not valid.

    The id must have the right form, because names of files contain it.
    """
    if not (isinstance(row.id, str) and _RUN_ID.fullmatch(row.id)):
        raise unreadable(f"{str(row.id)[:40]!r} is not the id of a run")
    found = RunRecord(
        id=row.id,
        task=row.task,
        target=row.target,
        settings=load_record(row.settings),
        versions=load_record(row.versions),
        created_at=row.created_at,
        status=row.status,
        stop_reason=row.stop_reason,
        wall_s=row.wall_s,
    )
    _require_types(found)
    return found


def trial_of(row: Row[Any]) -> Trial:
    """The trial in a row of `trials` with the `data` of its source; `StorageError` otherwise."""
    plan = load_record(row.plan) if row.plan else None
    if not (plan is None or isinstance(plan, Plan)):
        raise unreadable("a trial's plan is a record of another type")
    try:
        source = unpacked(row.data).decode()
    except UnicodeDecodeError as error:
        raise unreadable(error) from error
    candidate = Candidate(source, row.parent_id, plan, row.proposer)
    _require_types(candidate)
    found = Trial(
        index=row._mapping["index"],  # row.index is a method of the tuple
        iteration=row.iteration,
        candidate=candidate,
        outcome=outcome_of(row.outcome),
        wall_s=row.wall_s,
        cached=row.cached,
    )
    _require_types(found)
    return found


def note_of(kind: type[Note], text: str) -> Note:
    """A stored note of a run; `StorageError` if it does not belong to this class."""
    return record_of(kind, load_record(text))


def record_of(cls: type[_T], fields: Mapping[str, Any]) -> _T:
    """The record with these fields; `StorageError` if they are not those of its class."""
    try:
        found = cls(**fields)
    except TypeError as error:
        raise unreadable(error) from error
    _require_types(found)
    return found


def outcome_of(text: str) -> Outcome:
    """A stored outcome; `StorageError` if it is not valid."""
    return _read(text, outcome_from_json)


def _require_types(record: object) -> None:
    try:
        require_types(record)
    except TypeError as error:
        raise unreadable(error) from error


def load_record(text: str) -> Any:
    """A stored record; `StorageError` if it is not a record of this version."""
    return _read(text, from_json)


def load_fields(text: str) -> Mapping[str, Any]:
    """A stored JSON object without conversion; `StorageError` if it is not an object."""
    found = _read(text, lambda plain: plain)
    if not isinstance(found, dict):
        raise unreadable("a stored object has another type")
    return found


def load_list(text: str) -> tuple[Any, ...]:
    """The items of a stored JSON list without conversion; `StorageError` if it is not a list."""
    found = _read(text, lambda plain: plain)
    if not isinstance(found, list):
        raise unreadable("a stored list has another type")
    return tuple(found)


def _read(text: str, made: Callable[[Any], _T]) -> _T:
    """The result of converting stored JSON; `StorageError` if it is damaged."""
    try:
        return made(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise unreadable(error) from error


def unreadable(reason: object) -> StorageError:
    """The error for a row that this version cannot have written."""
    return StorageError(
        f"a stored record cannot be read ({str(reason)[:200]}): it is damaged or was written by "
        "another version of tilewright. Restore the database from a copy or upgrade."
    )


def unpacked(data: bytes) -> bytes:
    """The bytes of an artifact: no more than `MAX_ARTIFACT`, however well they were packed."""
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(data, MAX_ARTIFACT)
        whole = unpacker.eof
    except (zlib.error, TypeError) as error:
        raise _damaged(error) from error
    if not whole:
        raise _damaged(f"it is truncated, or larger than {MAX_ARTIFACT >> 20} MiB")
    return found


def _damaged(reason: object) -> StorageError:
    return StorageError(
        f"a stored artifact is damaged ({reason}). Restore the database from a copy."
    )
