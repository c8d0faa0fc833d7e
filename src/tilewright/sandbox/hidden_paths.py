"""Files and folders that a process and all that it starts cannot see (Linux namespaces).

An empty file or folder is mounted over each of them, in separate namespaces of the process. Two
nested namespaces are used, so that the mounts are locked: even a process with all rights in the
inner namespace cannot remove them (mount_namespaces(7)). Nothing else changes, and neither does the
user.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

_NEW_USER, _NEW_MOUNTS = 0x10000000, 0x00020000
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_NOT_ALLOWED = "this system does not let a process have namespaces of its own"

_libc = ctypes.CDLL(None, use_errno=True)


def hide(paths: Sequence[Path], empty_file: Path, empty_folder: Path) -> None:
    """Hide these files and folders from the calling process and everything that it starts. Missing
    ones are skipped.

    Call it in a process with one thread, before it executes a program. Raises `OSError` if the
    system does not allow this; nothing is hidden then, and the process should end.
    """
    user, group = os.getuid(), os.getgid()
    _own_namespaces(user, group)
    _mount(None, Path("/"), _RECURSIVE | _PRIVATE)
    for path in paths:
        if path.exists():
            _mount(empty_folder if path.is_dir() else empty_file, path, _BIND)
    _own_namespaces(user, group)


def why_not() -> str:
    """The reason why nothing can be hidden on this machine, or "", which a separate process finds
    out by trying.
    """
    process = os.fork()
    if process == 0:
        try:
            hide((), Path(os.devnull), Path("/"))
        except OSError:
            os._exit(1)
        os._exit(0)
    return _NOT_ALLOWED if os.waitpid(process, 0)[1] else ""


def _own_namespaces(user: int, group: int) -> None:
    """Enter new namespaces in which user and group are the same as outside."""
    _checked(_libc.unshare(_NEW_USER | _NEW_MOUNTS))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _mount(source: Path | None, target: Path, flags: int) -> None:
    named = os.fsencode(source) if source is not None else None
    _checked(_libc.mount(named, os.fsencode(target), None, ctypes.c_ulong(flags), None))


def _checked(result: int) -> None:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
