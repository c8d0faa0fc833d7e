"""A lock of the database server that ensures that only one process on all machines works on a
run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sqlalchemy import URL, Connection, text
from sqlalchemy.exc import DBAPIError

from tilewright.core.errors import StorageError
from tilewright.storage.lock import RunLock
from tilewright.storage.postgres import engine, error_of, lock_key

_TAKE = text("SELECT pg_try_advisory_lock(:key)")
_HOLDER = text(
    "SELECT a.application_name FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid) "
    "WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted "
    "AND l.classid::bigint = :high AND l.objid::bigint = :low "
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


class ServerRunLock:
    """A session's advisory lock, held inside a `with` block; it ends with its process.

    Raises `StorageError` on entry if another process holds the lock; the message names that
    process. The file lock `here` is taken too, so that no second process of this folder works on
    the run if the connection to the server ends.
    """

    def __init__(self, url: URL, name: str, here: RunLock) -> None:
        self._url = url
        self._key = lock_key(f"run {name}")
        self._here = here
        self._held = ExitStack()

    def __enter__(self) -> ServerRunLock:
        with ExitStack() as stack:
            connection = stack.enter_context(self._connected())
            if not connection.execute(_TAKE, {"key": self._key}).scalar_one():
                holder = self._holder(connection) or "another"
                raise StorageError(
                    f"process {holder} is already working on this run. Wait until it ends, or end "
                    "it first."
                )
            stack.enter_context(self._here)
            self._held = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def is_held(self) -> bool:
        """Whether some process holds the lock."""
        with self._connected() as connection:
            return self._holder(connection) is not None

    def _holder(self, connection: Connection) -> str | None:
        halves = divmod(self._key % (1 << 64), 1 << 32)
        values = dict(zip(("high", "low"), halves, strict=True))
        found = connection.execute(_HOLDER, values).first()
        return None if found is None else found[0] or ""

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """A separate connection, outside any transaction."""
        own = engine(self._url, pooled=False, autocommit=True)
        try:
            with own.connect() as connection:
                yield connection
        except DBAPIError as error:
            reason = error.orig if isinstance(error.orig, Exception) else error
            raise error_of(self._url, reason) from error
