"""Detects a full disk, because a failure that a full disk causes is not a failure of the
candidate.
"""

from __future__ import annotations

import errno
import os
import socket
import tempfile

from tilewright.core.errors import DiskFullError

LEAST_FREE_BYTES = 1 << 20
"""Free space that is less than the sources, objects and logs of one build need."""
_LEAST_FREE_FILES = 8


def require_room() -> None:
    """Raise `DiskFullError` if the folder of temporary files has no space left."""
    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError as error:
        raise _nowhere(error) from error
    found = os.statvfs(folder)
    no_files = found.f_files > 0 and found.f_favail < _LEAST_FREE_FILES  # some systems report none
    if found.f_bavail * found.f_frsize < LEAST_FREE_BYTES or no_files:
        raise DiskFullError(
            f"the disk of {folder} on {socket.gethostname()} is full, so kernels cannot be built "
            "there. Free some space, or name another folder in the environment variable TMPDIR. "
            "Then repeat the command, which continues the run."
        )


def full_disk(error: OSError) -> DiskFullError | None:
    """A message for the user if a full disk caused this error; None for other errors."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f"of {error.filename} " if error.filename else ""
        return DiskFullError(
            f"the disk {where}is full ({error.strerror}). Free some space, then repeat the command."
        )
    return _nowhere(error) if _is_of_tempfile(error) else None


def _is_of_tempfile(error: OSError) -> bool:
    """Whether `tempfile` could not write to any of its folders."""
    return isinstance(error, FileNotFoundError) and (error.strerror or "").startswith(
        "No usable temporary directory"
    )


def _nowhere(error: OSError) -> DiskFullError:
    return DiskFullError(
        f"no folder for temporary files can be written to ({error.strerror}), probably because "
        "the disk is full. Free some space, or name another folder in the environment variable "
        "TMPDIR. Then repeat the command."
    )
