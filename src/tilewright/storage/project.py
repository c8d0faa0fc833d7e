"""Where a project folder keeps its database and locks."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tilewright.core.errors import StorageError
from tilewright.storage.calls import SqlCalls
from tilewright.storage.database import Database
from tilewright.storage.lock import RunLock
from tilewright.storage.sql import SqlStorage
from tilewright.storage.tunings import SqlTunings

FOLDER = ".tilewright"
DATABASE = "tilewright.db"
_PREFLIGHT = "preflight"


def open_project(project: Path, *, create: bool = True) -> SqlStorage:
    """The storage of a project folder; `StorageError` if it is missing or not usable."""
    folder = project / FOLDER
    if not create and not (folder / DATABASE).exists():
        raise StorageError(
            f"{project} holds no tilewright runs: start one there with `tilewright optimize`, "
            "or name another folder with --project."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"{folder} cannot be created ({error.strerror}): make {project} writable "
            "or choose another --project folder."
        ) from error
    return SqlStorage(folder / DATABASE)


def open_calls(project: Path) -> SqlCalls:
    """The recorded calls to models of a project that has a database."""
    return SqlCalls(Database(project / FOLDER / DATABASE))


def open_tunings(project: Path) -> SqlTunings:
    """The tuning runs of a project folder, created if missing; `StorageError` if not usable."""
    open_project(project).close()
    return SqlTunings(Database(project / FOLDER / DATABASE))


def spool_folder(project: Path, run_id: str) -> Path:
    """Where a run's calls to models lie until they are recorded."""
    return project / FOLDER / "calls" / run_id


def run_lock(project: Path, identity: str) -> RunLock:
    """The lock of all runs with this identity: at most one process works on them."""
    return RunLock(project / FOLDER / "locks", identity)


def passed_preflight(project: Path, key: str) -> bool:
    """Whether the task with this content key was examined here and found sound."""
    return (project / FOLDER / _PREFLIGHT / key).exists()


def remember_preflight(project: Path, key: str) -> None:
    """Keep that a task was found sound; not being able to only costs another examination."""
    with suppress(OSError):
        (project / FOLDER / _PREFLIGHT).mkdir(exist_ok=True)
        (project / FOLDER / _PREFLIGHT / key).touch()
