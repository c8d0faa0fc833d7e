"""A control group for one command, if this process may create one (cgroup v2).

The system then limits the total memory and the number of processes of the command without delay. In
most containers and logins, this process may not create such groups, and only `sandbox.watch` checks
the sums, ten times a second. A group that only counts CPU time needs no controller.
"""

from __future__ import annotations

import contextlib
import functools
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
_PREFIX = "tilewright-"


class ControlGroup:
    """One group, which the command joins before it begins. If `bounds` is None, the group only
    counts CPU time.

    A process that writes "0" to the descriptor `joining` moves itself into the group.
    """

    def __init__(self, folder: Path, bounds: Limits | None = None) -> None:
        self._folder = folder
        self._bounds = bounds
        self.joining = os.open(folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    def excess(self) -> str | None:
        """The limit that the system had to enforce, as a sentence, or None."""
        if self._bounds and _count(self._folder / "memory.events", "oom_kill"):
            allowed = self._bounds.total_memory_bytes >> 20
            return f"killed: its processes took more than {allowed} MiB of memory together."
        return None

    def cpu_s(self) -> float:
        """CPU seconds of all processes that were ever in the group (`cpu.stat`); 0 if unknown."""
        return _count(self._folder / "cpu.stat", "usage_usec") * 1e-6

    def remove(self) -> None:
        """End all remaining processes of the group, and remove it."""
        os.close(self.joining)
        with contextlib.suppress(OSError):
            (self._folder / "cgroup.kill").write_text("1")
        end = time.monotonic() + _REMOVE_S
        while time.monotonic() < end:
            try:
                self._folder.rmdir()
            except OSError:  # a process is still ending
                time.sleep(0.01)
            else:
                return


@contextlib.contextmanager
def control_group(
    bounds: Limits, root: Path = ROOT, own: Path = _OWN
) -> Iterator[ControlGroup | None]:
    """A context manager with a group that has these limits; None if no group can be created."""
    group = _made(bounds, parent_group(root, own))
    try:
        yield group
    finally:
        if group is not None:
            group.remove()


@contextlib.contextmanager
def counting_group(root: Path = ROOT, own: Path = _OWN) -> Iterator[ControlGroup | None]:
    """A group without limits that counts CPU time; None if no group can be created."""
    group = _counting(root, own)
    try:
        yield group
    finally:
        if group is not None:
            group.remove()


def parent_group(root: Path = ROOT, own: Path = _OWN) -> Path | None:
    """The parent of this process's group, if this process may create further groups in it, or None.

    New groups are not created in the process's own group, because a group with limited subgroups
    must not contain processes.
    """
    try:
        path = _own_path(own)
        if path is None or path == "/":
            return None
        parent = (root / path.lstrip("/")).parent
        enabled = (parent / "cgroup.subtree_control").read_text().split()
    except OSError:
        return None
    return parent if _is_mine(parent) and set(enabled) >= _NEEDED else None


def _counting(root: Path, own: Path) -> ControlGroup | None:
    """A group that only counts, next to this process's own group, or in the root group if this
    process is in it. Only the root group may contain both processes and subgroups.
    """
    try:
        path = _own_path(own)
        if path is None:
            return None
        # If `root` contains the controllers of version 1, version 2 is in a separate folder next to
        # them.
        root = root / "unified" if (root / "unified").is_dir() else root
        parent = root if path == "/" else (root / path.lstrip("/")).parent
        if not _is_mine(parent):
            return None
        _remove_left(parent)
        folder = parent / _new_name()
        folder.mkdir()
    except OSError:
        return None
    try:
        return ControlGroup(folder)
    except OSError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return None


@functools.cache
def _remove_left(parent: Path) -> None:
    """Remove the groups of processes that were killed. Groups that still contain processes are
    kept.
    """
    for folder in parent.glob(f"{_PREFIX}*-*"):
        number = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if number.isdigit() and not Path("/proc", number).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


def _own_path(own: Path) -> str | None:
    """The path of this process's group (version 2), or None if there is none. Raises `OSError`."""
    paths = [p.removeprefix("0::") for p in own.read_text().splitlines() if p[:3] == "0::"]
    return paths[0] if len(paths) == 1 else None


def _is_mine(parent: Path) -> bool:
    return os.access(parent, os.W_OK | os.X_OK) and os.access(parent / "cgroup.procs", os.W_OK)


def _new_name() -> str:
    return f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"


def _made(bounds: Limits, parent: Path | None) -> ControlGroup | None:
    if parent is None:
        return None
    folder = parent / _new_name()
    try:
        folder.mkdir()
    except OSError:
        return None
    try:
        (folder / "memory.max").write_text(str(bounds.total_memory_bytes))
        (folder / "pids.max").write_text(str(bounds.processes + _PARENTS))
        with contextlib.suppress(OSError):  # if there is no swap
            (folder / "memory.swap.max").write_text("0")
        return ControlGroup(folder, bounds)
    except OSError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return None


_PARENTS = 3
"""Number of parent processes of the command inside bubblewrap, which the limit must allow in
addition.
"""


def _count(file: Path, name: str) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0
