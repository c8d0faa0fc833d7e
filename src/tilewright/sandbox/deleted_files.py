"""Measures files that are deleted but still in use by processes: they take space on a disk or in
memory, but no folder contains them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG

_MARK = b" (deleted)"
"""The end of a mapping's line in /proc/PID/maps, see proc(5)."""


def deleted_bytes(processes: Iterable[int]) -> int:
    """The space in bytes of the deleted files that these processes have open or mapped.

    Files in memory (memfd_create) count too. A file that several processes use counts once. A file
    that is mapped and not open counts only if this process may read /proc/PID/map_files, which
    needs the capability CAP_CHECKPOINT_RESTORE.
    """
    found: dict[tuple[int, int], int] = {}
    for process in processes:
        for path in _in_use(f"/proc/{process}"):
            with suppress(
                OSError
            ):  # the file or the process no longer exists, or belongs to another user
                status = os.stat(path)  # noqa: PTH116 (thousands of descriptors)
                if S_ISREG(status.st_mode) and status.st_nlink == 0:
                    found[status.st_dev, status.st_ino] = 512 * status.st_blocks
    return sum(found.values())


def _in_use(process: str) -> Iterator[str]:
    """The links to all open files of a process, and to its deleted mapped files."""
    with suppress(OSError), os.scandir(f"{process}/fd") as entries:
        for entry in entries:
            yield entry.path
    with suppress(OSError):
        for line in Path(process, "maps").read_bytes().splitlines():
            if line.endswith(_MARK):
                yield f"{process}/map_files/{line.split()[0].decode()}"
