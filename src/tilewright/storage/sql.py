"""Storage on SQLAlchemy: runs, trials, artifacts, the outcome cache and the event log."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from hashlib import sha256

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from tilewright.core.codec import to_json
from tilewright.core.errors import InternalError, UnknownNameError
from tilewright.core.records import Failed, History, Measured, Outcome, RunRecord, Trial
from tilewright.core.run_notes import Note, RunNote
from tilewright.core.tuning_records import TunedKernel
from tilewright.storage.database import Database
from tilewright.storage.rows import load_record, note_of, outcome_of, run_of, trial_of, unpacked
from tilewright.storage.schema import artifacts, calls, events, outcomes, runs, trials
from tilewright.storage.tuned_kernels import stored_kernels
from tilewright.storage.upserts import ARTIFACT, OUTCOME

# Statements of every evaluation, which are constructed once, because this takes longer than
# executing them.
_LAST = select(func.max(trials.c.index)).where(trials.c.run_id == bindparam("of_run"))
_CACHED = select(outcomes.c.outcome).where(outcomes.c.key == bindparam("wanted"))
_ADD_TRIAL = insert(trials)
_UPDATE_RUN = (
    update(runs)
    .where(runs.c.id == bindparam("of_run"))
    .values({name: bindparam(name) for name in ("status", "stop_reason", "wall_s")})
)


class SqlStorage:
    """The `Storage` role on a project's database. Every call is durable when it returns.

    Stored data are preserved if any process is killed at any moment. After a power failure, the
    last commits to an SQLite file may be missing (synchronous=NORMAL), but the file is not damaged.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def create_run(self, run: RunRecord) -> None:
        """Record a new run."""
        values = {
            "id": run.id,
            "identity": run.identity,
            "task": run.task,
            "target": run.target,
            "settings": _dump(run.settings),
            "versions": _dump(run.versions),
            "created_at": run.created_at,
            "status": run.status,
            "stop_reason": run.stop_reason,
            "wall_s": run.wall_s,
        }
        with self._database.write() as connection:
            connection.execute(insert(runs).values(values))

    def update_run(self, run_id: str, *, status: str, stop_reason: str, wall_s: float) -> None:
        """Set a run's status, stop reason and wall seconds."""
        values = {"status": status, "stop_reason": stop_reason, "wall_s": wall_s}
        with self._database.write() as connection:
            connection.execute(_UPDATE_RUN, {**values, "of_run": run_id})

    def run(self, run_id: str) -> RunRecord:
        """A run by id, unique prefix or "latest"; `UnknownNameError` if there is none."""
        newest_first = select(runs).order_by(runs.c.number.desc())
        wanted = newest_first.limit(1)
        if run_id != "latest":
            # An exact match is used even if it is a prefix of another id.
            wanted = newest_first.where(runs.c.id.startswith(run_id, autoescape=True))
        with self._database.read() as connection:
            found = connection.execute(wanted).all() if run_id else []  # every id begins with ""
            exact = [row for row in found if row.id == run_id]
            if len(exact or found) == 1:
                return run_of((exact or found)[0])
            known = connection.execute(select(runs.c.id)).scalars().all()
        if found:
            raise UnknownNameError(
                "run",
                run_id,
                known,
                f"{len(found)} runs have ids that begin with these characters. Give more of them.",
            )
        raise UnknownNameError("run", run_id, known, "`tilewright runs list` lists the runs.")

    def runs(self) -> list[RunRecord]:
        """All runs, newest first."""
        with self._database.read() as connection:
            rows = connection.execute(select(runs).order_by(runs.c.number.desc())).all()
        return [run_of(row) for row in rows]

    def delete_run(self, run_id: str) -> None:
        """Remove a run, its trials, events, calls and the sources that no other run has.

        Cached outcomes are kept.
        """
        of_run = select(trials.c.source_digest).where(trials.c.run_id == run_id)
        of_others = select(trials.c.source_digest).where(trials.c.run_id != run_id)
        with self._database.write() as connection:
            own = select(of_run.except_(of_others).subquery())
            digests = connection.execute(own).scalars().all()
            for table in (calls, events, trials):
                connection.execute(delete(table).where(table.c.run_id == run_id))
            connection.execute(delete(runs).where(runs.c.id == run_id))
            if digests:
                unused = delete(artifacts).where(artifacts.c.digest == bindparam("unused"))
                connection.execute(unused, [{"unused": digest} for digest in digests])

    def unfinished(self, identity: str) -> RunRecord | None:
        """The newest run with this identity that is not finished."""
        wanted = (
            select(runs)
            .where(runs.c.identity == identity, runs.c.status != "finished")
            .order_by(runs.c.number.desc())
            .limit(1)
        )
        with self._database.read() as connection:
            row = connection.execute(wanted).first()
        return run_of(row) if row is not None else None

    def append_trial(self, run_id: str, trial: Trial) -> None:
        """Append one trial; `InternalError` unless its index is the next one."""
        candidate = trial.candidate
        with self._database.write() as connection:
            last = connection.execute(_LAST, {"of_run": run_id}).scalar_one()
            following = 0 if last is None else last + 1
            if trial.index != following:
                raise InternalError(
                    f"trial {trial.index} of run {run_id} was appended, but the next index is "
                    f"{following}."
                )
            values = {
                "run_id": run_id,
                "index": trial.index,
                "iteration": trial.iteration,
                "candidate_id": candidate.id,
                "parent_id": candidate.parent_id,
                "proposer": candidate.proposer,
                "plan": _dump(candidate.plan) if candidate.plan else None,
                "source_digest": _put(connection, candidate.source.encode(), "source"),
                "outcome": _dump(trial.outcome),
                "latency": trial.latency,
                "binary_digest": getattr(trial.outcome, "artifact_digest", ""),
                "wall_s": trial.wall_s,
                "cached": trial.cached,
            }
            connection.execute(_ADD_TRIAL, values)

    def amend_trial(self, run_id: str, index: int, outcome: Outcome) -> None:
        """Replace the outcome of a trial, because a later check refuted it or added information."""
        latency = outcome.latency if isinstance(outcome, Measured) else None
        wanted = (trials.c.run_id == run_id, trials.c.index == index)
        values = {"outcome": _dump(outcome), "latency": latency}
        with self._database.write() as connection:
            changed = connection.execute(update(trials).where(*wanted).values(values))
        if changed.rowcount != 1:
            raise InternalError(f"run {run_id} has no trial {index} to amend.")

    def history(self, run_id: str) -> History:
        """All trials of a run, in the order of their indices."""
        wanted = (
            select(trials, artifacts.c.data)
            .join(artifacts, artifacts.c.digest == trials.c.source_digest)
            .where(trials.c.run_id == run_id)
            .order_by(trials.c.index)
        )
        with self._database.read() as connection:
            return History([trial_of(row) for row in connection.execute(wanted)])

    def cached_outcome(self, key: str) -> Outcome | None:
        """Outcome stored under a content key, if any."""
        with self._database.read() as connection:
            found = connection.execute(_CACHED, {"wanted": key}).scalar()
        return None if found is None else outcome_of(found)

    def store_outcome(self, key: str, outcome: Outcome) -> None:
        """Store an outcome under a content key.

        A stored outcome is kept. Only a lower bound ("slower_than_limit") is replaced, by a higher
        bound or by a complete outcome.
        """
        bound = outcome.bound if isinstance(outcome, Failed) else None
        values = {"key": key, "outcome": _dump(outcome), "bound": bound}
        self._database.store(OUTCOME, [values])

    def put_artifact(self, data: bytes, kind: str) -> str:
        """Store bytes by content (compressed); returns their SHA-256."""
        with self._database.write() as connection:
            return _put(connection, data, kind)

    def artifact(self, digest: str) -> bytes:
        """Bytes by SHA-256; `UnknownNameError` if there are none."""
        with self._database.read() as connection:
            wanted = select(artifacts.c.data).where(artifacts.c.digest == digest)
            found = connection.execute(wanted).scalar()
        if found is None:
            raise UnknownNameError("artifact", digest, [])
        return unpacked(found)

    def keep(self, run_id: str, note: RunNote) -> None:
        """Store a note of a run, after earlier notes of the same class, as a line of the event
        log.
        """
        data = {field.name: getattr(note, field.name) for field in fields(note)}
        self.append_event(run_id, type(note).__name__, data)

    def kept(self, run_id: str, kind: type[Note]) -> list[Note]:
        """A run's notes of this class, oldest first."""
        with self._database.read() as connection:
            return kept_notes(connection, run_id, kind)

    def append_event(self, run_id: str, kind: str, data: Mapping[str, object]) -> None:
        """Append one line to a run's event log, with the current time."""
        values = {"run_id": run_id, "at": now(), "kind": kind, "data": _dump(data)}
        with self._database.write() as connection:
            connection.execute(insert(events).values(values))

    def events(self, run_id: str) -> list[tuple[str, str, Mapping[str, object]]]:
        """A run's event log, oldest first: time (UTC, ISO 8601), kind, data."""
        wanted = select(events).where(events.c.run_id == run_id).order_by(events.c.number)
        with self._database.read() as connection:
            return [(row.at, row.kind, load_record(row.data)) for row in connection.execute(wanted)]

    def tuned_kernels(self, workload: str, device: str) -> list[TunedKernel]:
        """For each method of search, the newest kernel of the tuning runs with the most trials."""
        with self._database.read() as connection:
            return stored_kernels(connection, workload, device)

    def close(self) -> None:
        """Release the database. Idempotent."""
        self._database.close()


def kept_notes(connection: Connection, run_id: str, kind: type[Note]) -> list[Note]:
    """The notes of this class that are stored with a run, oldest first."""
    wanted = (
        select(events.c.data)
        .where(events.c.run_id == run_id, events.c.kind == kind.__name__)
        .order_by(events.c.number)
    )
    return [note_of(kind, data) for data in connection.execute(wanted).scalars()]


def now() -> str:
    """Current time, UTC, ISO 8601 to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _put(connection: Connection, data: bytes, kind: str) -> str:
    digest = sha256(data).hexdigest()
    values = {"digest": digest, "kind": kind, "size": len(data), "data": zlib.compress(data)}
    connection.execute(ARTIFACT.on(connection), values)
    return digest


def _dump(value: object) -> str:
    """The JSON text of a record. Halves of surrogate pairs, which an agent may have written, are
    replaced by question marks.
    """
    text = json.dumps(to_json(value), separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return text.encode(errors="replace").decode()
