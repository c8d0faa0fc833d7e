"""Tuning runs and their trials in the project database."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, select, update

from tilewright.core.tuning_records import (
    KnownKernel,
    KnownTile,
    TunedKernel,
    TunedTrial,
    TuningRecord,
    TuningStatus,
)
from tilewright.storage.database import Database
from tilewright.storage.rows import load_fields, load_list, record_of, unreadable
from tilewright.storage.schema import tuning_trials, tunings
from tilewright.storage.sql import now
from tilewright.storage.tuned_kernels import store_kernel
from tilewright.storage.upserts import TUNING_TRIAL

_JSON_OF_RUN = ("extents", "settings", "versions", "starts")
_JSON_OF_TRIAL = ("point", "samples")


class SqlTunings:
    """The tuning runs of a database. Each call is one transaction, whose data are durable when it
    returns.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def start(self, record: TuningRecord) -> TuningRecord:
        """Store a new run; the returned record has its date."""
        record = dataclasses.replace(record, created_at=now())
        with self._database.write() as connection:
            connection.execute(tunings.insert().values(_packed(record, _JSON_OF_RUN)))
        return record

    def latest(self, identity: str) -> TuningRecord | None:
        """The newest run with the same identity, if there is one."""
        wanted = select(tunings).where(tunings.c.identity == identity)
        with self._database.read() as connection:
            row = connection.execute(wanted.order_by(tunings.c.number.desc()).limit(1)).first()
        return _record(row) if row is not None else None

    def run(self, run_id: str) -> TuningRecord | None:
        """The run of this id, if there is one."""
        with self._database.read() as connection:
            row = connection.execute(select(tunings).where(tunings.c.id == run_id)).first()
        return _record(row) if row is not None else None

    def nearest_runs(self, family: str, target: str, extents: Sequence[int]) -> list[TuningRecord]:
        """Runs of a family on a target, ordered by the distance of their sizes as in `nearest`, and
        then by age, newest first.
        """
        wanted = select(tunings).where(tunings.c.family == family, tunings.c.target == target)
        with self._database.read() as connection:
            rows = connection.execute(wanted.order_by(tunings.c.number.desc())).all()
        away = [_distance(_extents(row.extents, len(extents)), extents) for row in rows]
        order = sorted(range(len(rows)), key=lambda n: away[n])
        return [_record(rows[n]) for n in order]

    def add(self, run_id: str, trials: Sequence[TunedTrial]) -> None:
        """Append trials. A trial whose key already exists is not changed."""
        if not trials:
            return
        rows = [{"tuning_id": run_id, **_packed(trial, _JSON_OF_TRIAL)} for trial in trials]
        self._database.store(TUNING_TRIAL, rows)

    def trials(self, run_id: str) -> list[TunedTrial]:
        """A run's trials in the order they were measured."""
        wanted = select(tuning_trials).where(tuning_trials.c.tuning_id == run_id)
        with self._database.read() as connection:
            rows = connection.execute(wanted.order_by(tuning_trials.c.number)).all()
        return [_trial(row) for row in rows]

    def end(self, run_id: str, status: TuningStatus, wall_s: float) -> None:
        """Record how a run ended, and its wall-clock seconds over all sessions."""
        with self._database.write() as connection:
            connection.execute(
                update(tunings).where(tunings.c.id == run_id).values(status=status, wall_s=wall_s)
            )

    def nearest(
        self, family: str, target: str, extents: Sequence[int], shapes: int = 4, each: int = 2
    ) -> list[KnownTile]:
        """The fastest `each` points of each of the `shapes` nearest sizes of a family.

        Nearest first; the distance is the sum over loops of |log2| of the ratio of extents.
        """
        wanted = (
            select(tunings.c.extents, tuning_trials.c.point, tuning_trials.c.samples)
            .join(tuning_trials, tuning_trials.c.tuning_id == tunings.c.id)
            .where(
                tunings.c.family == family,
                tunings.c.target == target,
                tuning_trials.c.failure.is_(None),
                tuning_trials.c.point.is_not(None),
            )
        )
        with self._database.read() as connection:
            rows = connection.execute(wanted).all()
        by_shape: dict[tuple[int, ...], list[KnownTile]] = {}
        for row in rows:
            shape = _extents(row.extents, len(extents))
            tile = KnownTile(shape, load_fields(row.point), _median(row.samples))
            by_shape.setdefault(shape, []).append(tile)
        near = sorted(by_shape, key=lambda shape: (_distance(shape, extents), shape))[:shapes]
        return [
            tile
            for shape in near
            for tile in sorted(by_shape[shape], key=lambda t: t.seconds)[:each]
        ]

    def fastest(self, target: str, extents: Sequence[int]) -> list[KnownKernel]:
        """The fastest kernel of each workload with these loops, from any search."""
        wanted = (
            select(
                tunings.c.id, tunings.c.workload, tuning_trials.c.number, tuning_trials.c.samples
            )
            .join(tuning_trials, tuning_trials.c.tuning_id == tunings.c.id)
            .where(
                tunings.c.target == target,
                tunings.c.extents == json.dumps(list(extents)),
                tuning_trials.c.failure.is_(None),
            )
        )
        with self._database.read() as connection:
            best: dict[str, tuple[float, int, str]] = {}
            for row in connection.execute(wanted):
                found = (_median(row.samples), row.number, row.id)
                best[row.workload] = min(best.get(row.workload, found), found)
            return [
                record_of(
                    KnownKernel,
                    {
                        "run_id": run,
                        "workload": workload,
                        "trace": connection.execute(
                            select(tuning_trials.c.trace).where(tuning_trials.c.number == number)
                        ).scalar_one(),
                        "seconds": seconds,
                    },
                )
                for workload, (seconds, number, run) in best.items()
            ]

    def keep_kernel(self, kernel: TunedKernel) -> None:
        """Store the best kernel of a run, in place of its earlier one."""
        with self._database.write() as connection:
            store_kernel(connection, kernel)

    def close(self) -> None:
        """Release the database. Idempotent."""
        self._database.close()


def _distance(a: Sequence[int], b: Sequence[int]) -> float:
    return sum(abs(math.log2(x / y)) for x, y in zip(a, b, strict=True))


def _packed(record: TuningRecord | TunedTrial, as_json: Sequence[str]) -> dict[str, Any]:
    """Column values of a record."""
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    return {
        name: json.dumps(value) if name in as_json and value is not None else value
        for name, value in values.items()
    }


def _record(row: Row[Any]) -> TuningRecord:
    values = {field.name: row._mapping[field.name] for field in dataclasses.fields(TuningRecord)}
    values |= {name: load_list(values[name]) for name in ("extents", "starts")}
    values |= {name: load_fields(values[name]) for name in ("settings", "versions")}
    return record_of(TuningRecord, values)


def _trial(row: Row[Any]) -> TunedTrial:
    values = {field.name: row._mapping[field.name] for field in dataclasses.fields(TunedTrial)}
    point = values["point"]
    values |= {
        "samples": load_list(values["samples"]),
        "point": load_fields(point) if point else None,
    }
    found = record_of(TunedTrial, values)
    if found.failure is None:
        _require_times(found.samples)
    return found


def _extents(text: str, loops: int) -> tuple[int, ...]:
    """The stored extents of this number of loops."""
    found = load_list(text)
    if len(found) != loops or not all(type(extent) is int and extent > 0 for extent in found):
        raise unreadable(f"extents of a tuning run are not {loops} whole numbers above 0")
    return found


def _median(text: str) -> float:
    """The median of stored samples, in seconds."""
    samples = load_list(text)
    _require_times(samples)
    return float(statistics.median(samples))


def _require_times(samples: Sequence[Any]) -> None:
    """`StorageError` unless there are samples, each a finite time above 0."""
    if not samples or not all(type(s) in (int, float) and 0 < s < math.inf for s in samples):
        raise unreadable("the samples of a tuning trial are not all above 0")
