"""Upgrades a project database to the schema of this version, or gives the reason why this is not
possible.
"""

from __future__ import annotations

from importlib.resources import as_file, files

from sqlalchemy import Connection, inspect, text

from tilewright.core.errors import StorageError
from tilewright.storage.schema import metadata

HEAD = "0006"
"""The newest revision, so that a database with this revision can be opened without alembic."""


def schema_version(connection: Connection, elsewhere: str = "choose another") -> str | None:
    """The revision of the database; None if it has no tables.

    Raises `StorageError` if the tables belong to another program; `elsewhere` is the remedy in the
    message.
    """
    tables = set(inspect(connection).get_table_names())
    if "alembic_version" not in tables:
        if tables:
            raise StorageError(
                f"{connection.engine.url.database} is a database of another program: {elsewhere}."
            )
        return None
    _require_plain_tables(connection)
    version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if version is None else str(version)


def _require_plain_tables(connection: Connection) -> None:
    """Refuse a SQLite file with views or triggers, which are code of the file's author and might
    never end.
    """
    if connection.dialect.name != "sqlite":
        return
    found = "SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger')"
    first = connection.execute(text(found)).first()
    if first is not None:
        raise StorageError(
            f"{connection.engine.url.database} has a {first[0]} ({str(first[1])[:40]!r}), which "
            "tilewright never creates. Do not use this database, or restore it from your own copy."
        )


def require_current(version: str | None, name: str) -> None:
    """Raise `StorageError` for a database that would have to be migrated before it is read."""
    if version != HEAD:
        raise StorageError(
            f"{name} has the schema {version or 'of no version'}, and this version of tilewright "
            f"reads {HEAD}. Bring it up to date with `tilewright runs list`, or use the version "
            "of tilewright that wrote it."
        )


def migrate(connection: Connection, name: str, elsewhere: str, target: str = HEAD) -> None:
    """Upgrade to revision `target`; `StorageError` for a database of a newer tilewright.

    `name` and `elsewhere` are the name of the database and the remedy in messages.
    """
    current = schema_version(connection, elsewhere)
    if current == target:
        return
    if current is not None and current > HEAD:
        raise StorageError(
            f"{name} was written by a newer tilewright (its schema is {current}, this version "
            f"knows up to {HEAD}). Upgrade tilewright or {elsewhere}."
        )
    if current is None and target == HEAD:  # the tables the migrations lead to, without alembic
        metadata.create_all(connection)
        connection.execute(
            text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
        )
        connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})
        return
    try:
        # Imported only here, because importing alembic takes longer than importing everything else
        # in this module.
        from alembic import command
        from alembic.config import Config
    except ModuleNotFoundError as error:
        raise StorageError(
            f"{name} was written by an earlier tilewright (its schema is {current}, this version "
            f"reads {HEAD}), and the extra that upgrades it is missing. Install it with `pip "
            "install "
            f"'tilewright[migrate]'`, or {elsewhere}."
        ) from error

    with as_file(files("tilewright.storage") / "migrations") as folder:
        config = Config()
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, target)
