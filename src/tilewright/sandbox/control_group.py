"""A control group of its own for one command, where this process may make one (cgroup v2).

The system then bounds memory and processes of the command and of all it starts, in sum and at once.
In most containers and logins groups are somebody else's: there, `sandbox.watch` alone looks at the
sums, ten times a second.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from tilewright.sandbox.limits import Limits

ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_NEEDED = {"memory", "pids"}
_REMOVE_S = 1.0


class ControlGroup:
    """One group, to be joined by the command itself before it begins."""

    def __init__(self, folder: Path, bounds: Limits) -> None:
        self._folder = folder
        self._bounds = bounds
        self._joining = os.open(folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    def join(self) -> None:
        """Put the calling process into it. One that cannot is bounded by the watch alone."""
        with contextlib.suppress(OSError):
            os.write(self._joining, b"0")

    def excess(self) -> str | None:
        """Which bound the system had to keep, as a sentence, or None."""
        if _count(self._folder / "memory.events", "oom_kill"):
            allowed = self._bounds.total_memory_bytes >> 20
            return f"killed: its processes took more than {allowed} MiB of memory together."
        return None

    def remove(self) -> None:
        """End all that is left in it, and give it back."""
        os.close(self._joining)
        with contextlib.suppress(OSError):
            (self._folder / "cgroup.kill").write_text("1")
        end = time.monotonic() + _REMOVE_S
        while time.monotonic() < end:
            try:
                self._folder.rmdir()
            except OSError:  # a process is still on its way out
                time.sleep(0.01)
            else:
                return


@contextlib.contextmanager
def control_group(
    bounds: Limits, root: Path = ROOT, own: Path = _OWN
) -> Iterator[ControlGroup | None]:
    """A group with these bounds while a command runs; None where there can be none."""
    group = _made(bounds, parent_group(root, own))
    try:
        yield group
    finally:
        if group is not None:
            group.remove()


def parent_group(root: Path = ROOT, own: Path = _OWN) -> Path | None:
    """The group around this process's own, if this process may make further ones in it, or None.

    Not in its own: a group whose members are to be bounded has no processes of its own.
    """
    try:
        paths = [p.removeprefix("0::") for p in own.read_text().splitlines() if p[:3] == "0::"]
        if len(paths) != 1 or paths[0] == "/":
            return None
        parent = (root / paths[0].lstrip("/")).parent
        enabled = (parent / "cgroup.subtree_control").read_text().split()
    except OSError:
        return None
    mine = os.access(parent, os.W_OK | os.X_OK) and os.access(parent / "cgroup.procs", os.W_OK)
    return parent if mine and set(enabled) >= _NEEDED else None


def _made(bounds: Limits, parent: Path | None) -> ControlGroup | None:
    if parent is None:
        return None
    folder = parent / f"tilewright-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        folder.mkdir()
    except OSError:
        return None
    try:
        (folder / "memory.max").write_text(str(bounds.total_memory_bytes))
        (folder / "pids.max").write_text(str(bounds.processes + _PARENTS))
        with contextlib.suppress(OSError):  # where there is no swap
            (folder / "memory.swap.max").write_text("0")
        return ControlGroup(folder, bounds)
    except OSError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return None


_PARENTS = 3
"""Of the command inside bubblewrap."""


def _count(file: Path, name: str) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0
