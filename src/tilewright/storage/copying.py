"""Copies a whole database into an empty one, from SQLite or PostgreSQL to SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from sqlalchemy import URL, Connection, Table, func, insert, make_url, select, text
from sqlalchemy.exc import ArgumentError

from tilewright.core.errors import ConfigurationError, StorageError
from tilewright.storage.database import Database
from tilewright.storage.location import server_of
from tilewright.storage.schema import metadata

_ROWS = 500
"""Number of rows that are read and written at a time."""


def database_of(name: str) -> Path | URL:
    """The database that a user names: a file of SQLite, a project folder, or an address.

    Raises `ConfigurationError` for an address that contains a password, which other users of the
    machine could read, and for anything else.
    """
    from tilewright.storage.postgres import require_postgresql
    from tilewright.storage.project import DATABASE, FOLDER

    if "://" in name:
        try:
            url = make_url(name)
        except (ArgumentError, ValueError):
            raise ConfigurationError(
                "the address is not usable. Write postgresql://USER@HOST/DATABASE."
            ) from None
        if url.password is not None or "password" in url.query:
            raise ConfigurationError(
                "the address contains a password, which other users of this machine can read. Put "
                "it into PGPASSWORD or ~/.pgpass, and leave it out of the command."
            )
        return require_postgresql(url, "the command")
    path = Path(name)
    if path.suffix == ".db":
        return path
    return server_of(path) or path / FOLDER / DATABASE


def copy_database(source: Path | URL, target: Path | URL) -> dict[str, int]:
    """Copy all rows of `source` into `target`, and return the number of rows of each table.

    Either all rows are copied or none. `target` must contain no runs, and is compared with `source`
    before the copy is committed. `StorageError` gives the reason if copying is not possible.
    """
    if source == target:
        raise StorageError(
            "source and destination are the same database. Give another destination."
        )
    if isinstance(source, Path) and not source.is_file():
        raise StorageError(
            f"{source} does not exist. Give a database, or a folder that contains one."
        )
    if isinstance(target, Path):
        _make_folder(target.parent)
    read_from = Database(source, create=False)
    try:
        if read_from.is_new:
            raise StorageError(
                f"{read_from.name} contains no runs of tilewright, so there is nothing to copy."
            )
        write_to = Database(target)
        try:
            with read_from.read() as old, write_to.write() as new:
                return _copied(old, new, write_to.name)
        finally:
            write_to.close()
    finally:
        read_from.close()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"{folder} cannot be created ({error.strerror}). Give a folder that can be written."
        ) from error


def _copied(old: Connection, new: Connection, name: str) -> dict[str, int]:
    tables = metadata.sorted_tables  # tables that other tables refer to come first
    for table in tables:
        if new.execute(select(func.count()).select_from(table)).scalar_one():
            raise StorageError(
                f"{name} already contains {table.name}. Copy into an empty database, so that data "
                "of two projects are not mixed or lost."
            )
    counts = {}
    for table in tables:
        digest, counts[table.name] = sha256(), 0
        for rows in _parts(old, table):
            new.execute(insert(table), rows)
            counts[table.name] += len(rows)
            digest.update(repr([sorted(row.items()) for row in rows]).encode())
        copied = sha256()
        for rows in _parts(new, table):
            copied.update(repr([sorted(row.items()) for row in rows]).encode())
        if copied.digest() != digest.digest():
            raise StorageError(
                f"table {table.name} in {name} differs from the source after copying, so nothing "
                "was copied."
            )
        _continue_numbers(new, table)
    return counts


def _parts(connection: Connection, table: Table) -> Iterator[list[dict[str, object]]]:
    """The rows of a table in the order of their keys, in parts."""
    query = select(table).order_by(*table.primary_key)
    for rows in connection.execute(query).mappings().partitions(_ROWS):
        yield [dict(row) for row in rows]


def _continue_numbers(connection: Connection, table: Table) -> None:
    """Let PostgreSQL continue numbering after the copied rows, which SQLite does automatically."""
    if connection.dialect.name != "postgresql" or "number" not in table.c:
        return
    highest = connection.execute(select(func.max(table.c.number))).scalar_one()
    if highest is not None:
        connection.execute(
            text("SELECT setval(pg_get_serial_sequence(:name, 'number'), :highest)"),
            {"name": table.name, "highest": highest},
        )
