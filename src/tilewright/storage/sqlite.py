"""The SQLite file of a project, and the conversion of its errors to sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event

from tilewright.core.errors import StorageError

BUSY_TIMEOUT_S = 10.0


class SqliteFile:
    """One file in WAL mode, in which reading never waits for a process that writes.

    A transaction that writes takes the lock when it begins (BEGIN IMMEDIATE). Two processes
    therefore wait for each other, instead of failing in the middle of a transaction.
    """

    elsewhere = "choose another --project folder"

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.writer = _engine(path)
        self.reader: Engine = self.writer.execution_options(reads_only=True)

    def prepare(self, connection: Connection) -> None:
        """Does nothing, because BEGIN IMMEDIATE already excludes other processes that write."""

    def error(self, reason: Exception) -> StorageError:
        """A sentence that names the file and the remedy."""
        return StorageError(_sentence(self.name, str(reason)))


def _engine(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": BUSY_TIMEOUT_S})

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # `_begin` begins transactions
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        reads_only = connection.get_execution_options().get("reads_only", False)
        connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")

    return engine


def _sentence(path: str, reason: str) -> str:
    low = reason.lower()
    if "not a database" in low or "malformed" in low or "no such" in low:
        return (
            f"{path} is not a readable tilewright database ({reason}). Move it away to start "
            "afresh, or restore it from a copy."
        )
    if "locked" in low or "busy" in low:
        return (
            f"{path} has been locked by another program for {BUSY_TIMEOUT_S:g} s. Close that "
            "program and run the same command again."
        )
    if "readonly" in low or "read-only" in low or "unable to open" in low:
        return (
            f"{path} cannot be written. Make the folder and the file writable, or choose another "
            "--project folder."
        )
    if "full" in low:
        return f"the disk of {path} is full. Free some space and run the same command again."
    if "i/o error" in low:  # the errors of a quota, of a limit on file sizes, and of a failing disk
        return (
            f"{path} could not be read or written ({reason}). Free some space if the disk or a "
            "quota is full, else check the disk, and run the same command again."
        )
    return f"{path} cannot be used ({reason}). Check the file, or move it away to start afresh."
