"""Calls to models in the project database. Each call is stored before it is made, and its reply
afterwards.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row, bindparam, select, update

from tilewright.core.records import CallRecord
from tilewright.storage.database import Database
from tilewright.storage.rows import load_fields, record_of
from tilewright.storage.schema import calls
from tilewright.storage.sql import now
from tilewright.storage.upserts import CALL

_FIELDS = [field.name for field in dataclasses.fields(CallRecord)]

# Constructed once, because constructing a statement takes longer than executing it.
_REPLY = (
    select(calls.c.reply)
    .where(calls.c.key == bindparam("wanted"), calls.c.reply.is_not(None))
    .limit(1)
)
_FINISH = (
    update(calls)
    .where(calls.c.run_id == bindparam("of_run"), calls.c.key == bindparam("of_key"))
    .values({name: bindparam(name) for name in (*_FIELDS, "reply", "finished_at")})
)


class SqlCalls:
    """The `CallStore` role on a project's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def reply(self, key: str) -> Mapping[str, object] | None:
        """The recorded reply to this call, from any run of the project."""
        with self._database.read() as connection:
            found = connection.execute(_REPLY, {"wanted": key}).scalar()
        return load_fields(found) if found else None

    def intend(self, call: CallRecord, request: Mapping[str, object]) -> None:
        """Record that a call is about to be made."""
        values = {**_values(call), "request": json.dumps(request), "intended_at": now()}
        with self._database.write() as connection:
            connection.execute(CALL.on(connection), values)

    def finish(self, call: CallRecord, reply: Mapping[str, object] | None) -> None:
        """Record how an intended call ended."""
        text = json.dumps(reply) if reply is not None else None
        values = {**_values(call), "reply": text, "finished_at": now()}
        with self._database.write() as connection:
            connection.execute(_FINISH, {**values, "of_run": call.run_id, "of_key": call.key})

    def annotate(self, run_id: str, key: str, note: str) -> None:
        """Record why the reply of a finished call could not be used."""
        of_this = (calls.c.run_id == run_id) & (calls.c.key == key)
        with self._database.write() as connection:
            connection.execute(update(calls).where(of_this).values(note=note))

    def calls(self, run_id: str) -> list[CallRecord]:
        """A run's calls in the order of their intents."""
        columns = (calls.c[name] for name in _FIELDS)  # without the long texts
        wanted = select(*columns).where(calls.c.run_id == run_id).order_by(calls.c.number)
        with self._database.read() as connection:
            return [_record(row) for row in connection.execute(wanted)]

    def exchanges(
        self, run_id: str
    ) -> list[tuple[str, Mapping[str, object], Mapping[str, object]]]:
        """Key, request and reply of a run's answered calls, in the order of their intents."""
        wanted = (
            select(calls.c.key, calls.c.request, calls.c.reply)
            .where(calls.c.run_id == run_id, calls.c.reply.is_not(None))
            .order_by(calls.c.number)
        )
        with self._database.read() as connection:
            rows = connection.execute(wanted).all()
        return [(row.key, load_fields(row.request), load_fields(row.reply)) for row in rows]

    def close(self) -> None:
        """Release the database."""
        self._database.close()


def _values(call: CallRecord) -> dict[str, Any]:
    return {name: getattr(call, name) for name in _FIELDS}


def _record(row: Row[Any]) -> CallRecord:
    return record_of(CallRecord, {name: row._mapping[name] for name in _FIELDS})
