"""Files in the user's cache folder, which hold results that later processes would compute again.

A sandboxed program cannot write to this folder. A file is used only if this process's user owns it,
nobody else may write it, and its hash is right; otherwise, the result is computed again.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

MOST_FILES = 24
"""Number of files of one kind that are kept. The ones that were written first are deleted."""
_HASH_BYTES = 32


def cache_file(name: str) -> Path:
    """The path of a file in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tilewright" / name


def kept(kind: str, key: str, make: Callable[[], bytes]) -> bytes:
    """The bytes that `make` returned in this or an earlier process.

    `key` is a hash of everything on which they depend. Empty bytes are not stored, and neither is
    anything if the cache folder cannot be written.
    """
    try:
        path = cache_file(f"{kind}-{key}.bin")
    except RuntimeError:  # the user has no home folder
        return make()
    found = _read(path)
    if found is None:
        found = make()
        if found and write_cache_file(path, _digest(path, found) + found):
            _delete_oldest(path.parent, kind)
    return found


def _read(path: Path) -> bytes | None:
    """The bytes that `kept` has stored in a file; None if there is none or it has changed."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags), "rb") as file:
            known = os.fstat(file.fileno())
            is_own = stat.S_ISREG(known.st_mode) and known.st_uid == os.geteuid()
            if not is_own or known.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
            digest, data = file.read(_HASH_BYTES), file.read()
    except OSError:
        return None
    return data if data and digest == _digest(path, data) else None


def write_cache_file(path: Path, data: bytes) -> bool:
    """Write a file of the cache folder in one step, because other processes may do the same.

    Returns whether this was possible. If it was not, the folder stays as it was.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(".part", f"{path.stem}-", path.parent)
    except OSError:
        return False
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except OSError:  # for example, the disk is full
        with suppress(OSError):
            Path(name).unlink()
        return False
    return True


def _delete_oldest(folder: Path, kind: str) -> None:
    """Delete all files of a kind but the last `MOST_FILES`."""
    with suppress(OSError):
        files = sorted(folder.glob(f"{kind}-*"), key=lambda path: path.stat().st_mtime_ns)
        for old in files[:-MOST_FILES]:
            old.unlink()


def _digest(path: Path, data: bytes) -> bytes:
    """The hash of a file's content and name, so that no file can stand for another one."""
    found = hashlib.sha256(path.name.encode())
    found.update(data)
    return found.digest()
