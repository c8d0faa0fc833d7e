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
from tilewright.storage.unsent_results import Rows, UnsentResults
from tilewright.storage.upserts import OUTCOME, TUNING_TRIAL, Upsert

_KEPT = {upsert.table.name: upsert for upsert in (OUTCOME, TUNING_TRIAL)}
"""Tables of measured results, which are kept if the server is unavailable. Their rows refer to no
other rows that may be missing.
"""


class Backend(Protocol):
    """The differences between SQLite and PostgreSQL, except those of SQL statements."""

    writer: Engine
    reader: Engine
    name: str
    """The name of the database in messages."""
    elsewhere: str
    """The remedy if the database belongs to another program."""

    def prepare(self, connection: Connection) -> None:
        """Prevent other processes from creating or migrating tables during this transaction."""

    def error(self, reason: Exception) -> StorageError:
        """The error of the driver as a sentence."""


class Database:
    """A project's own SQLite file, or a database on a PostgreSQL server.

    With an `unsent` folder, measured results that could not be sent to a server are written there,
    and stored when the database is opened the next time.
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

        Without `create`, no tables are created in an empty database, and `is_new` is true. With
        `reads_only`, a database that would have to be migrated is a `StorageError`.
        """
        self._backend = _backend(place)
        self.name = self._backend.name
        self._unsent = UnsentResults(unsent) if unsent is not None else None
        self.is_new = False
        try:
            with self.read() as connection:
                current = schema_version(connection, self._backend.elsewhere)
            if current is None and not create:
                self.is_new = True
                return
            if reads_only:
                require_current(current, self._backend.name)
            elif current != HEAD:  # so that opening does not wait for a process that writes
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
        """A connection for reading, which the caller must close."""
        with self.explained():
            return self._backend.reader.connect()

    def store(self, upsert: Upsert, rows: Rows) -> None:
        """Store measured results. If the server is unavailable, they are written to the `unsent`
        folder, and the exception is raised.
        """
        try:
            self._store(upsert, rows)
        except StorageUnavailableError as error:
            if self._unsent is None:
                raise
            try:
                file = self._unsent.keep(upsert.table.name, rows)
            except OSError as problem:
                raise StorageError(
                    f"{error} The last results could not be kept in the project folder "
                    f"({problem.strerror}) and will be measured again."
                ) from error
            raise StorageUnavailableError(
                f"{error} The last results are kept in {file}, and the next command stores them."
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
        """A context manager that converts errors of the driver to `StorageError`."""
        try:
            yield
        except DBAPIError as error:
            reason = error.orig if isinstance(error.orig, Exception) else error
            raise self._backend.error(reason) from error
        except sqlite3.Error as error:  # from the pragmas of a new connection
            raise self._backend.error(error) from error

    def close(self) -> None:
        """Release the database. May be called again."""
        self._backend.writer.dispose()


def _backend(place: Path | URL) -> Backend:
    if isinstance(place, Path):
        return SqliteFile(place)
    from tilewright.storage.postgres import PostgresServer

    return PostgresServer(place)
