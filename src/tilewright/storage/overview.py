"""Fast queries for the live page, which shows the runs of a project while other processes write
them.

A run's history contains the source of every trial. These queries return trials without texts, and
only trials that the caller does not have yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any

from sqlalchemy import Connection, Row, Text, and_, case, cast, func, or_, select

from tilewright.core.errors import StorageError
from tilewright.core.records import Failed, RunRecord, Trial
from tilewright.core.run_notes import Label, Note
from tilewright.core.templates import planned_values
from tilewright.storage.database import Database
from tilewright.storage.overview_records import Event, Payment, RunOverview, TrialOverview
from tilewright.storage.rows import load_fields, note_of, run_of, trial_of, unreadable
from tilewright.storage.sampling import Sample, ancestors_of, in_parts, sample_of
from tilewright.storage.schema import artifacts, calls, events, runs, trials
from tilewright.storage.sql import kept_notes


class SqlOverview:
    """Queries that only read. They can be used by several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._watching: Connection | None = None
        self._lock = Lock()

    def change_token(self) -> object:
        """A value that changes whenever the database is written."""
        with self._lock:
            if self._watching is None:
                self._watching = self._database.connect()
            try:
                with self._database.explained():
                    return self._change_token(self._watching)
            except StorageError:  # the server cannot be reached; another connection is tried later
                self._watching.close()
                self._watching = None
                raise

    @staticmethod
    def _change_token(watching: Connection) -> object:
        if watching.dialect.name == "sqlite":
            # Differs when another connection has committed; reads one page of shared memory.
            return watching.connection.cursor().execute("PRAGMA data_version").fetchone()
        watching.rollback()
        # Differs when any transaction of the server that writes has begun or ended.
        return watching.execute(_TRANSACTIONS).scalar_one()

    def runs(self) -> list[RunOverview]:
        """All runs, newest first."""
        with self._database.read() as connection:
            found = connection.execute(select(runs).order_by(runs.c.number.desc())).all()
            return [one for part in in_parts(found) for one in self._overviews(connection, part)]

    def run(self, run_id: str) -> RunOverview | None:
        """One run by its whole id."""
        with self._database.read() as connection:
            found = connection.execute(select(runs).where(runs.c.id == run_id)).all()
            return next(iter(self._overviews(connection, found)), None)

    def record(self, run_id: str) -> RunRecord | None:
        """A run by its whole id, without counting its trials and calls."""
        with self._database.read() as connection:
            found = connection.execute(select(runs).where(runs.c.id == run_id)).one_or_none()
        return run_of(found) if found is not None else None

    def label(self, run_id: str) -> Label:
        """The tags and the note of a run; empty ones if it has none."""
        wanted = (
            select(events.c.data)
            .where(events.c.run_id == run_id, events.c.kind == Label.__name__)
            .order_by(events.c.number.desc())
            .limit(1)
        )
        with self._database.read() as connection:
            found = connection.execute(wanted).scalar_one_or_none()
        return note_of(Label, found) if found is not None else Label()

    def kept(self, run_id: str, kind: type[Note]) -> list[Note]:
        """The notes of this class that are stored with a run, in order."""
        with self._database.read() as connection:
            return kept_notes(connection, run_id, kind)

    def sample(self, run_id: str) -> Sample | None:
        """The trials that are shown of a very long run; None if all are shown."""
        with self._database.read() as connection:
            return sample_of(connection, run_id)

    def chosen(self, run_id: str, indices: Iterable[int]) -> list[TrialOverview]:
        """These trials of a run, in order, without those that do not exist."""
        wanted = _LIGHT_TRIALS.where(trials.c.run_id == run_id).order_by(trials.c.index)
        with self._database.read() as connection:
            return [
                _trial_overview(row)
                for part in in_parts(sorted(indices))
                for row in connection.execute(wanted.where(trials.c.index.in_(part)))
            ]

    def ancestors(
        self, run_id: str, candidate_ids: Iterable[str], known: Iterable[int]
    ) -> list[TrialOverview]:
        """The first trials of these candidates and of all their ancestors, without the known
        ones.
        """
        with self._database.read() as connection:
            found = ancestors_of(connection, run_id, candidate_ids, known)
        return self.chosen(run_id, found)

    def trials(self, run_id: str, after: int = -1) -> list[TrialOverview]:
        """The trials of a run whose index is above `after`, in order."""
        wanted = _LIGHT_TRIALS.where(trials.c.run_id == run_id, trials.c.index > after).order_by(
            trials.c.index
        )
        with self._database.read() as connection:
            return [_trial_overview(row) for row in connection.execute(wanted)]

    def whole_trials(self, run_id: str, indices: Sequence[int]) -> list[Trial]:
        """These trials of a run with their sources, in order, without those that do not exist."""
        wanted = (
            select(trials, artifacts.c.data)
            .join(artifacts, artifacts.c.digest == trials.c.source_digest)
            .where(trials.c.run_id == run_id)
            .order_by(trials.c.index)
        )
        with self._database.read() as connection:
            return [
                trial_of(row)
                for part in in_parts(sorted(indices))
                for row in connection.execute(wanted.where(trials.c.index.in_(part)))
            ]

    def events(self, run_id: str, kinds: Sequence[str], after: int = 0) -> list[Event]:
        """The lines of a run's log of these kinds whose number is above `after`, in order."""
        wanted = (
            select(events.c.number, events.c.at, events.c.kind, events.c.data)
            .where(events.c.run_id == run_id, events.c.kind.in_(kinds), events.c.number > after)
            .order_by(events.c.number)
        )
        with self._database.read() as connection:
            rows = connection.execute(wanted).all()
        return [Event(row.number, row.at, row.kind, load_fields(row.data)) for row in rows]

    def payments(self, run_id: str, after: int = 0) -> list[Payment]:
        """The calls of a run to models whose number is above `after`, in order."""
        paid = case((calls.c.cached, 0.0), else_=func.coalesce(calls.c.usd, 0.0))
        wanted = (
            select(calls.c.number, calls.c.finished_at, paid)
            .where(calls.c.run_id == run_id, calls.c.number > after)
            .order_by(calls.c.number)
        )
        with self._database.read() as connection:
            rows = connection.execute(wanted).all()
        return [Payment(number, at, float(usd)) for number, at, usd in rows]

    def close(self) -> None:
        """Release the database. Idempotent."""
        with self._lock:
            if self._watching is not None:
                self._watching.close()
                self._watching = None
        self._database.close()

    def _overviews(self, connection: Connection, found: Sequence[Row[Any]]) -> list[RunOverview]:
        ids = [row.id for row in found]
        counted = _by_run(connection, _COUNTED.where(trials.c.run_id.in_(ids)))
        started = _by_run(connection, _STARTED.where(trials.c.run_id.in_(ids)))
        noise = _noise_by_run(connection, ids)
        paid = _by_run(connection, _PAID.where(calls.c.run_id.in_(ids)))
        labels = _by_run(
            connection,
            select(events.c.run_id, events.c.data)
            .where(events.c.run_id.in_(ids), events.c.kind == Label.__name__)
            .order_by(events.c.number),
        )
        return [
            RunOverview(
                run_of(row),
                note_of(Label, labels[row.id].data) if row.id in labels else Label(),
                trials=counted[row.id].trials if row.id in counted else 0,
                start=started[row.id].latency if row.id in started else None,
                best=counted[row.id].best if row.id in counted else None,
                noise=noise.get(row.id, 0.0),
                calls=paid[row.id].calls if row.id in paid else 0,
                usd=(paid[row.id].usd or 0.0) if row.id in paid else 0.0,
                unpriced=paid[row.id].unpriced if row.id in paid else 0,
            )
            for row in found
        ]


_LIGHT = (
    *("index", "iteration", "candidate_id", "parent_id", "proposer", "plan", "outcome"),
    *("latency", "wall_s", "cached"),
)
_LIGHT_TRIALS = select(*(trials.c[name] for name in _LIGHT))
_TRANSACTIONS = select(cast(func.pg_current_snapshot(), Text))
_COUNTED = select(
    trials.c.run_id, func.count().label("trials"), func.min(trials.c.latency).label("best")
).group_by(trials.c.run_id)
_STARTED = select(trials.c.run_id, trials.c.latency).where(trials.c.index == 0)
_PAID = (
    select(
        calls.c.run_id,
        func.count().label("calls"),
        func.sum(case((calls.c.cached, 0.0), else_=calls.c.usd)).label("usd"),
        func.sum(case((calls.c.cached | calls.c.usd.is_not(None), 0), else_=1)).label("unpriced"),
    )
    .where(calls.c.state == "replied")
    .group_by(calls.c.run_id)
)


def _by_run(connection: Connection, wanted: Any) -> dict[str, Any]:
    """The last row of each run."""
    return {row.run_id: row for row in connection.execute(wanted)}


def _noise_by_run(connection: Connection, ids: Sequence[str]) -> dict[str, float]:
    """The noise of the starting kernel plus that of the first of the fastest kernels, of each run
    in which they differ; `StorageError` for an outcome that is not one.
    """
    best = (
        select(trials.c.run_id, func.min(trials.c.latency).label("best"))
        .where(trials.c.run_id.in_(ids))
        .group_by(trials.c.run_id)
        .subquery()
    )
    first = (
        select(trials.c.run_id, func.min(trials.c.index).label("at"))
        .join(best, and_(best.c.run_id == trials.c.run_id, best.c.best == trials.c.latency))
        .group_by(trials.c.run_id)
        .subquery()
    )
    wanted = (
        select(trials.c.run_id, trials.c.outcome)
        .join(first, first.c.run_id == trials.c.run_id)
        .where(first.c.at > 0, or_(trials.c.index == 0, trials.c.index == first.c.at))
    )
    found: dict[str, float] = {}
    for run_id, outcome in connection.execute(wanted):
        try:
            found[run_id] = found.get(run_id, 0.0) + _noise(json.loads(outcome))
        except (TypeError, AttributeError, ValueError, RecursionError) as error:
            raise unreadable(error) from error
    return found


def _noise(outcome: Mapping[str, Any]) -> float:
    return float(outcome.get("noise") or 0.0)


def _trial_overview(row: Row[Any]) -> TrialOverview:
    """The overview of a row without its source; `StorageError` if the row is not a trial."""
    try:
        return _read_trial(row)
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise unreadable(error) from error


def _read_trial(row: Row[Any]) -> TrialOverview:
    outcome = json.loads(row.outcome)
    plan = json.loads(row.plan) if row.plan else {}
    breakdown: Mapping[str, float] = outcome.get("breakdown") or {}
    failed = outcome["type"] == Failed.__name__
    parameters = plan.get("parameters", {})
    turn = parameters.get("turn")
    values = planned_values(parameters)
    return TrialOverview(
        index=row._mapping["index"],  # row.index is a method of the tuple
        iteration=row.iteration,
        candidate_id=row.candidate_id,
        parent_id=row.parent_id,
        proposer=row.proposer,
        option=plan.get("option", ""),
        expected_gain=plan.get("expected_gain"),
        turn=turn if isinstance(turn, int) else None,
        latency=row.latency,
        noise=_noise(outcome),
        utilization=outcome.get("utilization"),
        unit=outcome.get("unit", ""),
        quantity=outcome.get("quantity", ""),
        cause=max(breakdown, key=lambda name: breakdown[name]) if breakdown else "",
        failure=(outcome["kind"], outcome["stage"], outcome["line"]) if failed else None,
        wall_s=row.wall_s,
        cached=row.cached,
        instance_of=str(parameters.get("instance", row.candidate_id)) if values else "",
        values=values,
    )
