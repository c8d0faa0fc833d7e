"""At most one process works on a run. The lock dies with its process, however that ends."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from tilewright.core.errors import StorageError


class RunLock:
    """An exclusive advisory file lock, held inside a `with` block.

    `StorageError` on entry when another process holds it; the message names that process.
    Asking whether it is held takes it shared for an instant, which keeps nobody from taking it.
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
        # The file stays: removing it would let a third process lock a new file of the same name.
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def holder(self) -> int | None:
        """The process that holds the lock; None where nobody does, or this system cannot tell.

        The number in the file may be that of another container's process, so that process must
        have the very file open.
        """
        try:
            process = int(self._path.read_text())
            mine = self._path.stat()
            opened = [file.stat() for file in Path(f"/proc/{process}/fd").iterdir()]
        except (OSError, ValueError):  # also where /proc is missing or another user's
            return None
        is_open = any(os.path.samestat(mine, other) for other in opened)
        return process if is_open and self.is_held() else None

    def where(self) -> str:
        """The number of the process that holds the lock, perhaps one of another container; "" if
        none ever did."""
        try:
            return self._path.read_text().strip()
        except (OSError, ValueError):
            return ""

    def is_held(self) -> bool:
        """Whether some process holds the lock."""
        try:
            file = os.open(self._path, os.O_RDONLY)
        except OSError:  # nobody ever held it
            return False
        try:
            return not _locked(file, fcntl.LOCK_SH)
        finally:
            os.close(file)


def take(file: int) -> bool:
    """Lock exclusively; False if another process has. Those that only ask are waited for."""
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
