"""Calls to models in the project database: the intent before, the reply after."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from tilewright.core.records import CallRecord
from tilewright.storage.database import Database
from tilewright.storage.schema import calls
from tilewright.storage.sql import now

_FIELDS = [field.name for field in dataclasses.fields(CallRecord)]


class SqlCalls:
    """The `CallStore` role on a project's SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def reply(self, key: str) -> Mapping[str, object] | None:
        """The recorded reply to this call, whichever run made it."""
        wanted = select(calls.c.reply).where(calls.c.key == key, calls.c.reply.is_not(None))
        with self._database.read() as connection:
            found = connection.execute(wanted.limit(1)).scalar()
        reply: Mapping[str, object] | None = json.loads(found) if found else None
        return reply

    def intend(self, call: CallRecord, request: Mapping[str, object]) -> None:
        """Record that a call is about to be made."""
        values = {**_values(call), "request": json.dumps(request), "intended_at": now()}
        self._put(values)

    def finish(self, call: CallRecord, reply: Mapping[str, object] | None) -> None:
        """Record how an intended call ended."""
        text = json.dumps(reply) if reply is not None else None
        changed = {**_values(call), "reply": text, "finished_at": now()}
        of_this = (calls.c.run_id == call.run_id) & (calls.c.key == call.key)
        with self._database.write() as connection:
            connection.execute(update(calls).where(of_this).values(changed))

    def annotate(self, run_id: str, key: str, note: str) -> None:
        """Say of a finished call why its reply could not be used."""
        of_this = (calls.c.run_id == run_id) & (calls.c.key == key)
        with self._database.write() as connection:
            connection.execute(update(calls).where(of_this).values(note=note))

    def calls(self, run_id: str) -> list[CallRecord]:
        """A run's calls in the order of their intents."""
        wanted = select(calls).where(calls.c.run_id == run_id).order_by(calls.c.number)
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
        return [(row.key, json.loads(row.request), json.loads(row.reply)) for row in rows]

    def close(self) -> None:
        """Release the database."""
        self._database.close()

    def _put(self, values: Mapping[str, object]) -> None:
        statement = upsert(calls).values(values)
        statement = statement.on_conflict_do_update(
            index_elements=[calls.c.run_id, calls.c.key], set_=dict(values)
        )
        with self._database.write() as connection:
            connection.execute(statement)


def _values(call: CallRecord) -> dict[str, Any]:
    return {name: getattr(call, name) for name in _FIELDS}


def _record(row: Row[Any]) -> CallRecord:
    return CallRecord(**{name: row._mapping[name] for name in _FIELDS})
