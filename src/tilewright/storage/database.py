"""Opens a project's SQLite file, and turns the database's errors into one clear sentence."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from tilewright.core.errors import StorageError
from tilewright.storage.migrate import HEAD, migrate, schema_version

BUSY_TIMEOUT_S = 10.0


class Database:
    """One SQLite file in WAL mode; reads never wait for a writer.

    Writes take the lock when they begin (BEGIN IMMEDIATE), so two processes queue for it instead
    of one failing half-way through its transaction.
    """

    def __init__(self, path: Path) -> None:
        """Create or open and migrate; `StorageError` if that is not possible."""
        self.path = path
        self._engine = _engine(path)
        try:
            with self.read() as connection:
                current = schema_version(connection)
            if current != HEAD:  # read first: opening does not wait for a writer
                with self.write() as connection:
                    migrate(connection)
        except StorageError:
            self.close()
            raise

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction, durable when the block ends."""
        with explained(self.path), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A consistent snapshot."""
        reader = self._engine.execution_options(reads_only=True)
        with explained(self.path), reader.connect() as connection:
            yield connection

    def close(self) -> None:
        """Release the file. Idempotent."""
        self._engine.dispose()


def _engine(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": BUSY_TIMEOUT_S})

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # transactions begin where `_begin` says
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        reads_only = connection.get_execution_options().get("reads_only", False)
        connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")

    return engine


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Database errors in the block become a `StorageError` that names the file and the remedy."""
    try:
        yield
    except DBAPIError as error:
        raise StorageError(_sentence(path, str(error.orig))) from error
    except sqlite3.Error as error:  # from the pragmas of a new connection
        raise StorageError(_sentence(path, str(error))) from error


def _sentence(path: Path, reason: str) -> str:
    low = reason.lower()
    if "not a database" in low or "malformed" in low or "no such" in low:
        return (
            f"{path} is not a readable tilewright database ({reason}): "
            "move it away to start afresh, or restore it from a copy."
        )
    if "locked" in low or "busy" in low:
        return (
            f"{path} has been locked by another program for {BUSY_TIMEOUT_S:g} s: "
            "close that program and run the same command again."
        )
    if "readonly" in low or "read-only" in low or "unable to open" in low:
        return (
            f"{path} cannot be written: make the folder and the file writable, "
            "or choose another --project folder."
        )
    if "full" in low:
        return f"the disk of {path} is full: free some space and run the same command again."
    if "i/o error" in low:  # how a quota, a limit on file sizes and a failing disk look
        return (
            f"{path} could not be read or written ({reason}): free some space if the disk or a "
            "quota is full, else check the disk, and run the same command again."
        )
    return f"{path} cannot be used ({reason}): check the file, or move it away to start afresh."
