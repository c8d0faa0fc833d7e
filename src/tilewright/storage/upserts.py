"""Inserts that take existing rows into account, which SQLite and PostgreSQL write differently."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from sqlalchemy import Connection, Table

from tilewright.storage.schema import artifacts, calls, outcomes, tuning_trials

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

    Insert: TypeAlias = sqlite.Insert | postgresql.Insert


class Upsert:
    """An insert into `table`; `complete` adds the rule for a row that already exists.

    Constructed once per dialect, because constructing a statement takes longer than executing it.
    """

    def __init__(self, table: Table, complete: Callable[[Insert], Insert]) -> None:
        self.table = table
        self._complete = complete
        self._by_dialect: dict[str, Insert] = {}

    def on(self, connection: Connection) -> Insert:
        """The statement in the dialect of a connection."""
        name = connection.dialect.name
        if name not in self._by_dialect:  # so that only the used dialect is imported
            insert = import_module(f"sqlalchemy.dialects.{name}").insert
            self._by_dialect[name] = self._complete(insert(self.table))
        return self._by_dialect[name]


def _first_stays(new: Insert) -> Insert:
    return new.on_conflict_do_nothing()


def _bound_gives_way(new: Insert) -> Insert:
    """A lower bound is replaced by a higher bound or by a complete outcome."""
    known, bound = outcomes.c.bound, new.excluded.bound
    return new.on_conflict_do_update(
        index_elements=[outcomes.c.key],
        set_={"outcome": new.excluded.outcome, "bound": bound},
        where=known.is_not(None) & (bound.is_(None) | (bound > known)),
    )


def _last_intent_counts(new: Insert) -> Insert:
    """If a call is recorded as intended again, all columns except those of its end are replaced."""
    kept = {"number", "run_id", "key", "reply", "finished_at"}
    replaced = [column.name for column in calls.c if column.name not in kept]
    return new.on_conflict_do_update(
        index_elements=[calls.c.run_id, calls.c.key],
        set_={name: new.excluded[name] for name in replaced},
    )


ARTIFACT = Upsert(artifacts, _first_stays)
OUTCOME = Upsert(outcomes, _bound_gives_way)
CALL = Upsert(calls, _last_intent_counts)
TUNING_TRIAL = Upsert(tuning_trials, _first_stays)
