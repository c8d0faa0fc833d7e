"""A database on a PostgreSQL server, and the conversion of its errors to sentences.

The sentences name the server and the database, but never the password.
"""

from __future__ import annotations

import os
import socket
from hashlib import sha256

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, text

from tilewright.core.errors import (
    ConfigurationError,
    StorageError,
    StorageUnavailableError,
    ToolchainMissingError,
)

INSTALL = "install it with: pip install 'tilewright[postgres]'"
BUSY_TIMEOUT_S = 10.0
_CONNECT_TIMEOUT_S = 10

_SESSION = {
    "lock_timeout": f"{BUSY_TIMEOUT_S * 1000:.0f}",  # in milliseconds, as idle_session_timeout
    "idle_session_timeout": "0",
    # If the machine of a client fails, its connection and its lock end within a minute.
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "client_min_messages": "warning",
}

_MIGRATION_KEY = "migration"


class PostgresServer:
    """One database of a server, version 14 or later."""

    elsewhere = "choose another database"

    def __init__(self, url: URL) -> None:
        self.url = url
        self.name = shown(url)
        self.writer = engine(url)
        self.reader: Engine = self.writer.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )

    def prepare(self, connection: Connection) -> None:
        """Prevent other processes from creating or migrating tables until the transaction ends."""
        key = lock_key(_MIGRATION_KEY)
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})
        encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
        if encoding != "UTF8":
            raise StorageError(
                f"{self.name} stores text as {encoding}. Create a database with `createdb "
                "--encoding UTF8 --template template0`."
            )

    def error(self, reason: Exception) -> StorageError:
        """A sentence that names the server and the remedy."""
        return error_of(self.url, reason)


def engine(url: URL, *, pooled: bool = True, autocommit: bool = False) -> Engine:
    """The engine for the database at `url`; `ToolchainMissingError` if the driver is not
    installed.
    """
    options = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())
    own = url.query.get("options", "")
    arguments: dict[str, object] = {
        "options": f"{options} {own if isinstance(own, str) else ' '.join(own)}".strip(),
        "application_name": f"{os.getpid()} on {socket.gethostname()}"[:63],
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "client_encoding": "utf8",
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 60_000,  # milliseconds
    }
    settings: dict[str, object] = {} if pooled else {"poolclass": NullPool}
    if autocommit:
        settings["isolation_level"] = "AUTOCOMMIT"
    try:
        return create_engine(url, connect_args=arguments, **settings)
    except ModuleNotFoundError as error:
        raise ToolchainMissingError(
            f"a database on a PostgreSQL server needs psycopg, which is not installed: {INSTALL}."
        ) from error


def shown(url: URL) -> str:
    """The database in messages, without user, password and parameters."""
    host = url.host or url.query.get("host") or "the local server"
    where = host if isinstance(host, str) else ",".join(host)
    port = f":{url.port}" if url.port else ""
    return f"PostgreSQL database {url.database or url.username or 'of the user'} at {where}{port}"


def lock_key(name: str) -> int:
    """The key of the advisory lock for a name, a signed 64-bit integer."""
    return int.from_bytes(sha256(f"tilewright {name}".encode()).digest()[:8], "big", signed=True)


def error_of(url: URL, reason: Exception) -> StorageError:
    """The error for `url`, which is a `StorageUnavailableError` if the server cannot be reached."""
    name, state = shown(url), getattr(reason, "sqlstate", None) or ""
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    said = _without_password(lines[0] if lines else type(reason).__name__, url)
    again = "run the same command again"
    if state == "42501":
        return StorageError(
            f"{name} does not let {_user(url)} do this ({said}): its owner must grant it, for "
            "instance `GRANT CREATE ON SCHEMA public TO ...`."
        )
    if state == "25006" or "recovery" in said:  # a standby says the latter
        return StorageError(f"{name} is read-only ({said}). Give the server that takes writes.")
    if state == "55P03":
        return StorageError(
            f"{name} has been locked by another program for {BUSY_TIMEOUT_S:g} s. Close that "
            f"program and {again}."
        )
    if state in ("53100", "53200"):
        return StorageError(f"the server of {name} is full ({said}). Free some space and {again}.")
    connecting = state.startswith(("08", "57P", "28", "3D", "53")) or not state
    operational = any(kind.__name__ == "OperationalError" for kind in type(reason).__mro__)
    if not (connecting and operational):
        return StorageError(f"{name} cannot be used ({said}).")
    return _connecting(url, name, said, state)


def _connecting(url: URL, name: str, said: str, state: str) -> StorageError:
    """Whether an error belongs to the connection. Errors of a new connection have no code."""
    low, again = said.lower(), "run the same command again"
    if state[:2] == "28" or any(
        part in low for part in ("authentication failed", "no password supplied", "pg_hba.conf")
    ):
        return StorageError(
            f"{name} refuses {_user(url)} ({said}). Put the right password into PGPASSWORD or "
            "~/.pgpass, or name another user."
        )
    if "role" in low and "does not exist" in low:
        return StorageError(
            f"{name} knows no such user ({said}). Give another one in the database's address, or "
            "create it with `createuser`."
        )
    if state == "3D000" or ("database" in low and "does not exist" in low):
        return StorageError(
            f"{name} does not exist: create it with `createdb {url.database or ''}`".rstrip()
            + ", or correct the database's address."
        )
    if "invalid" in low and ("option" in low or "uri" in low or "dsn" in low):
        return StorageError(f"the address of {name} is not usable ({said}). Correct it.")
    if "parameter" in low and "unrecognized" in low:
        return StorageError(f"{name} is too old ({said}): PostgreSQL 14 or later is needed.")
    return StorageUnavailableError(
        f"{name} cannot be reached ({said}). Start the server or correct the database's address, "
        f"and {again}; it continues where it stopped."
    )


def _user(url: URL) -> str:
    return f"user {url.username}" if url.username else "this user"


def _without_password(said: str, url: URL) -> str:
    hidden = [url.password, url.query.get("password")]
    for password in hidden:
        if isinstance(password, str) and password:
            said = said.replace(password, "***")
    return said


def require_postgresql(url: URL, named_by: str) -> URL:
    """The address with the driver that tilewright uses; `ConfigurationError` for other
    databases.
    """
    if url.drivername.split("+")[0] not in ("postgresql", "postgres"):
        raise ConfigurationError(
            f"the database in {named_by} is of kind {url.drivername!r}. Write "
            "postgresql://USER@HOST/DATABASE, or nothing for a file in the project folder."
        )
    return url.set(drivername="postgresql+psycopg")
