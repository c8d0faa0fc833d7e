"""Checks the total resources of a sandboxed command and of everything that it started, which limits
of single processes do not cover.
"""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

from tilewright.sandbox.deleted_files import deleted_bytes
from tilewright.sandbox.limits import Limits

EVERY_S = 0.1
"""Seconds between two checks. Between two checks, a command may exceed a limit."""

_PROC = Path("/proc")
_SESSION, _USER_TICKS, _SYSTEM_TICKS, _THREADS, _RESIDENT_PAGES = 3, 11, 12, 17, 21
"""Fields of /proc/PID/stat after the name, see proc(5)."""

_SLACK = 3  # number of parent processes of the command inside bubblewrap
_PAGE = resource.getpagesize()
_BLOCK = 4096


class Watch:
    """Checks the session of a command. Construct it before the command starts.

    Sandboxed processes cannot leave their session. Shared memory is counted for each process.
    """

    def __init__(self, bounds: Limits, folder: Path) -> None:
        self._bounds = bounds
        self._folder = folder
        self._others = _processes()

    def excess(self, leader: int) -> str | None:
        """The limit that the session of the process `leader` exceeds, as a sentence, or None."""
        threads = resident_bytes = 0
        session = []
        for process in _processes() - self._others:
            fields = _fields(process)
            if fields and int(fields[_SESSION]) == leader:
                session.append(int(process))
                threads += int(fields[_THREADS])
                resident_bytes += int(fields[_RESIDENT_PAGES]) * _PAGE
        if resident_bytes > self._bounds.total_memory_bytes:
            allowed = self._bounds.total_memory_bytes >> 20
            return f"killed: its processes took more than {allowed} MiB of memory together."
        if threads > self._bounds.processes + _SLACK:
            return f"killed: it started more than {self._bounds.processes} processes."
        most = self._bounds.total_file_bytes
        if disk_bytes(self._folder, most) + deleted_bytes(session) > most:
            allowed = most >> 20
            return f"killed: it wrote more than {allowed} MiB to files together."
        return None


def session_cpu_s(leader: int) -> float:
    """CPU seconds so far of the running processes in the session of the process `leader`."""
    session = [f for f in map(_fields, _processes()) if f and int(f[_SESSION]) == leader]
    ticks = sum(int(f[_USER_TICKS]) + int(f[_SYSTEM_TICKS]) for f in session)
    return ticks / os.sysconf("SC_CLK_TCK")


def _processes() -> set[str]:
    """Ids of all processes that can be seen."""
    if sys.platform != "linux":
        return set()
    return {name for name in os.listdir(_PROC) if name.isdigit()}  # noqa: PTH208 (thrice as fast)


def disk_bytes(folder: Path, enough: int) -> int:
    """The total size of the files in a folder, without following links. Counting stops when the
    limit is exceeded.

    Each file counts as at least one block, so that the number of empty files is limited too. A
    folder that cannot be read, because it is nested too deeply or not accessible, counts as
    exceeding the limit.
    """
    total, pending = 0, [os.fspath(folder)]
    while pending and total <= enough:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):  # it has ended meanwhile
                        total += max(_BLOCK, 512 * entry.stat(follow_symlinks=False).st_blocks)
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    if total > enough:
                        break
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return enough + 1
    return total


def _fields(process: str) -> list[str]:
    """The fields after the name, which may contain any characters; empty if the process has
    ended.
    """
    try:
        return (_PROC / process / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
