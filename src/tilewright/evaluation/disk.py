"""A full disk: what fails on it says nothing about a candidate."""

from __future__ import annotations

import os
import socket
import tempfile

from tilewright.core.errors import DiskFullError

LEAST_FREE_BYTES = 1 << 20
"""Less than a build needs: its sources, objects and logs."""
_LEAST_FREE_FILES = 8


def require_room() -> None:
    """Raise `DiskFullError` where the folder of temporary files has no room left."""
    folder = tempfile.gettempdir()
    found = os.statvfs(folder)
    no_files = found.f_files > 0 and found.f_favail < _LEAST_FREE_FILES  # some systems count none
    if found.f_bavail * found.f_frsize < LEAST_FREE_BYTES or no_files:
        raise DiskFullError(
            f"the disk of {folder} on {socket.gethostname()} is full, so that kernels cannot be "
            "built there. Free some space, or name another folder in the environment variable "
            "TMPDIR. Then call the same command again, which continues the run."
        )
