"""Opens the database and the locks of a project, on this machine or on a server."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.core.errors import StorageError
from tilewright.core.tuning_records import TunedKernel
from tilewright.storage.calls import SqlCalls
from tilewright.storage.database import Database
from tilewright.storage.location import server_of
from tilewright.storage.lock import RunLock
from tilewright.storage.overview import SqlOverview
from tilewright.storage.sql import SqlStorage
from tilewright.storage.tunings import SqlTunings

if TYPE_CHECKING:
    from tilewright.storage.server_lock import ServerRunLock

FOLDER = ".tilewright"
DATABASE = "tilewright.db"
_PREFLIGHT = "preflight"
_SECRETS = "secrets"


def open_project(project: Path, *, create: bool = True) -> SqlStorage:
    """The storage of a project folder; `StorageError` if it is missing or not usable."""
    return SqlStorage(_open(project, create))


def open_calls(project: Path) -> SqlCalls:
    """The recorded calls to models of a project that has a database."""
    return SqlCalls(_open(project, create=False))


def open_overview(project: Path, *, reads_only: bool = False) -> SqlOverview:
    """The queries of the live page for a project; `StorageError` if it has no database.

    With `reads_only`, a database of an earlier version is not upgraded, but is an error too.
    """
    return SqlOverview(_open(project, create=False, reads_only=reads_only))


def open_tunings(project: Path) -> SqlTunings:
    """The tuning runs of a project folder, created if missing; `StorageError` if not usable."""
    return SqlTunings(_open(project, create=True))


def tuned_kernels(project: Path, workload: str, device: str) -> list[TunedKernel]:
    """The tuner's kernels that a project stores; empty if the project has no database."""
    if server_of(project) is None and not (project / FOLDER / DATABASE).exists():
        return []
    storage = open_project(project, create=False)
    try:
        return storage.tuned_kernels(workload, device)
    finally:
        storage.close()


def describe_server(project: Path) -> str | None:
    """The database server a project names, and its version; None without one.

    Nothing is created in the database; `TilewrightError` if it cannot be used.
    """
    server = server_of(project)
    if server is None:
        return None
    database = Database(server, create=False)
    try:
        with database.read() as connection:
            version = connection.exec_driver_sql("SHOW server_version").scalar_one()
    finally:
        database.close()
    return f"{database.name}, server version {version}"


def _open(project: Path, create: bool, reads_only: bool = False) -> Database:
    folder, server = project / FOLDER, server_of(project)
    if server is None and not create and not (folder / DATABASE).exists():
        raise _without_runs(str(project))
    if create:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"{folder} cannot be created ({error.strerror}). Give --project a folder that "
                "you may write to."
            ) from error
    if server is None:
        return Database(folder / DATABASE, reads_only=reads_only)
    address = server.set(password=None).render_as_string()
    unsent = folder / "unsent" / sha256(address.encode()).hexdigest()[:16]
    database = Database(server, create=create, unsent=unsent, reads_only=reads_only)
    if database.is_new:
        database.close()
        raise _without_runs(database.name)
    return database


def _without_runs(name: str) -> StorageError:
    return StorageError(
        f"{name} contains no runs of tilewright. Start one there with `tilewright optimize`, or "
        "give another folder with --project."
    )


def spool_folder(project: Path, run_id: str) -> Path:
    """The folder for a run's calls to models until they are recorded."""
    return project / FOLDER / "calls" / run_id


def run_lock(project: Path, identity: str) -> RunLock | ServerRunLock:
    """The lock of the runs with this identity, with which only one process at a time works on them.

    On a server, the lock applies to all machines and project folders that use the database.
    """
    server, here = server_of(project), RunLock(project / FOLDER / "locks", identity)
    if server is not None:
        from tilewright.storage.server_lock import ServerRunLock

        return ServerRunLock(server, identity, here)
    return here


def secret_of(project: Path, owner: str) -> int:
    """The secret seed of a run's private inputs, which is drawn from the operating system in the
    first call.

    It is stored in a separate file that only the user may read, not in the database, so no record,
    report or bundle contains it. If the file is missing, another secret is drawn, and outcomes
    under the old secret are no longer found in the cache.
    """
    folder = project / FOLDER / _SECRETS
    file = folder / owner
    with suppress(OSError, UnicodeDecodeError):
        text = file.read_text()
        if text.isdecimal():
            return int(text)
        file.unlink()  # incomplete because the disk was full
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = folder / f".{owner}.{os.getpid()}"
        with open(draft, "w", opener=_only_mine) as stream:
            stream.write(str(secrets.randbits(62)))
        with suppress(FileExistsError):  # another process drew a secret at the same time
            file.hardlink_to(draft)
        draft.unlink()
        return int(file.read_text())
    except (OSError, ValueError) as error:
        raise StorageError(
            f"the secret of the private inputs cannot be kept in {file} ({error}). Make the "
            "folder writable or choose another --project folder."
        ) from error


def _only_mine(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def passed_preflight(project: Path, key: str) -> bool:
    """Whether the task with this key has passed preflight in this project."""
    return (project / FOLDER / _PREFLIGHT / key).exists()


def remember_preflight(project: Path, key: str) -> None:
    """Store that a task has passed preflight. If this fails, preflight is repeated in the next
    run.
    """
    with suppress(OSError):
        (project / FOLDER / _PREFLIGHT).mkdir(exist_ok=True)
        (project / FOLDER / _PREFLIGHT / key).touch()
