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
        if found:
            _write(path, kind, found)
    return found


def _read(path: Path) -> bytes | None:
    """The content of a file that `_write` has written; None if there is none or it has changed."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(path, flags), "rb") as file:  # noqa: PTH123 (a descriptor, not a path)
            known = os.fstat(file.fileno())
            is_own = stat.S_ISREG(known.st_mode) and known.st_uid == os.geteuid()
            if not is_own or known.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
            digest, data = file.read(_HASH_BYTES), file.read()
    except OSError:
        return None
    return data if data and digest == _digest(path, data) else None


def _write(path: Path, kind: str, data: bytes) -> None:
    """Store bytes under a name of their own first, because other processes may do the same."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(".part", f"{kind}-", path.parent)
    except OSError:
        return
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor, not a path)
            file.write(_digest(path, data) + data)
        Path(name).replace(path)
    except OSError:  # for example, the disk is full
        with suppress(OSError):
            Path(name).unlink()
        return
    with suppress(OSError):
        newest = sorted(path.parent.glob(f"{kind}-*"), key=lambda p: -p.stat().st_mtime_ns)
        for old in newest[MOST_FILES:]:
            old.unlink()


def _digest(path: Path, data: bytes) -> bytes:
    """The hash of a file's content and name, so that no file can stand for another one."""
    found = hashlib.sha256(path.name.encode())
    found.update(data)
    return found.digest()
