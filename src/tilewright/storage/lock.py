"""A lock that ensures that only one process works on a run. It is released when its process ends
for any reason.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from tilewright.core.errors import StorageError


class RunLock:
    """An exclusive advisory file lock, held inside a `with` block.

    Raises `StorageError` on entry if another process holds the lock; the message names that
    process. Testing whether it is held takes a shared lock for a moment, which does not prevent
    other processes from taking the lock.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name}.lock"
        self._file: int | None = None

    def __enter__(self) -> RunLock:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StorageError(
                f"{self._path} cannot be written ({error.strerror}). Make the folder writable, or "
                "choose another folder with --project."
            ) from error
        if not take(file):
            holder = os.read(file, 32).decode(errors="replace").strip() or "unknown"
            os.close(file)
            raise StorageError(
                f"process {holder} is already working on this run. Wait until it ends, or end it "
                "first."
            )
        os.truncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file = file
        return self

    def __exit__(self, *_: object) -> None:
        # The file is not removed, because a third process could then lock a new file with the same
        # name.
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def is_held(self) -> bool:
        """Whether some process holds the lock."""
        try:
            file = os.open(self._path, os.O_RDONLY)
        except OSError:  # no process has ever held the lock
            return False
        try:
            return not _locked(file, fcntl.LOCK_SH)
        finally:
            os.close(file)


def take(file: int) -> bool:
    """Take the lock exclusively; False if another process holds it. Processes that only test the
    lock are waited for.
    """
    while not _locked(file, fcntl.LOCK_EX):
        if not _locked(file, fcntl.LOCK_SH):
            return False
        fcntl.flock(file, fcntl.LOCK_UN)
        time.sleep(0.001)
    return True


def _locked(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
