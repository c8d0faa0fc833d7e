"""Opens a project's database, and turns its errors into one clear sentence."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from sqlalchemy import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError

from tilewright.core.errors import StorageError, StorageUnavailableError
from tilewright.storage.migrate import HEAD, migrate, require_current, schema_version
from tilewright.storage.sqlite import SqliteFile
from tilewright.storage.unsent import Rows, Unsent
from tilewright.storage.upserts import OUTCOME, TUNING_TRIAL, Upsert

_KEPT = {upsert.table.name: upsert for upsert in (OUTCOME, TUNING_TRIAL)}
"""What is measured, and costs time to measure again: no row refers to another that may be lost."""


class Backend(Protocol):
    """What differs between SQLite and PostgreSQL beside the wording of statements."""

    writer: Engine
    reader: Engine
    name: str
    """For sentences."""
    elsewhere: str
    """What to do where this database is another program's."""

    def prepare(self, connection: Connection) -> None:
        """Make sure that nobody else creates or migrates tables within this transaction."""

    def error(self, reason: Exception) -> StorageError:
        """The driver's error as a sentence."""


class Database:
    """A project's own SQLite file, or a database on a PostgreSQL server.

    With an `unsent` folder, measured results that a server could not take are kept there and
    stored when the database is opened again.
    """

    def __init__(
        self,
        place: Path | URL,
        *,
        create: bool = True,
        unsent: Path | None = None,
        reads_only: bool = False,
    ) -> None:
        """Create or open and migrate; `StorageError` if that is not possible.

        Without `create`, a database without tables is left as it is, and `is_new` says so. With
        `reads_only`, one that would have to be migrated is a `StorageError`.
        """
        self._backend = _backend(place)
        self.name = self._backend.name
        self._unsent = Unsent(unsent) if unsent is not None else None
        self.is_new = False
        try:
            with self.read() as connection:
                current = schema_version(connection, self._backend.elsewhere)
            if current is None and not create:
                self.is_new = True
                return
            if reads_only:
                require_current(current, self._backend.name)
            elif current != HEAD:  # read first: opening does not wait for a writer
                with self.write() as connection:
                    self._backend.prepare(connection)
                    migrate(connection, self._backend.name, self._backend.elsewhere)
            if self._unsent is not None and not reads_only:
                self._unsent.send(self._send)
        except StorageError:
            self.close()
            raise

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction, durable when the block ends."""
        with self.explained(), self._backend.writer.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A consistent snapshot."""
        with self.explained(), self._backend.reader.connect() as connection:
            yield connection

    def connect(self) -> Connection:
        """A connection to keep, for one who only reads; the caller closes it."""
        with self.explained():
            return self._backend.reader.connect()

    def store(self, upsert: Upsert, rows: Rows) -> None:
        """Store measured results; kept for later where a server is away, which still raises."""
        try:
            self._store(upsert, rows)
        except StorageUnavailableError as error:
            if self._unsent is None:
                raise
            try:
                file = self._unsent.keep(upsert.table.name, rows)
            except OSError as problem:
                raise StorageError(
                    f"{error} What was measured last could not be kept in the project folder "
                    f"({problem.strerror}) and will be measured again."
                ) from error
            raise StorageUnavailableError(
                f"{error} What was measured last is kept in {file} and stored then."
            ) from error

    def _send(self, table: str, rows: Rows) -> None:
        if table not in _KEPT:
            raise StorageError(f"this version of tilewright keeps no results of {table!r}")
        self._store(_KEPT[table], rows)

    def _store(self, upsert: Upsert, rows: Rows) -> None:
        with self.write() as connection:
            connection.execute(upsert.on(connection), list(rows))

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Errors of the driver in the block become a `StorageError`."""
        try:
            yield
        except DBAPIError as error:
            reason = error.orig if isinstance(error.orig, Exception) else error
            raise self._backend.error(reason) from error
        except sqlite3.Error as error:  # from the pragmas of a new connection
            raise self._backend.error(error) from error

    def close(self) -> None:
        """Release the database. Idempotent."""
        self._backend.writer.dispose()


def _backend(place: Path | URL) -> Backend:
    if isinstance(place, Path):
        return SqliteFile(place)
    from tilewright.storage.postgres import PostgresServer

    return PostgresServer(place)
