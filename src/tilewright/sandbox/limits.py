"""The resource limits of a sandboxed command, and functions that give its process these limits and
a separate user.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_CLONE_NEWUSER = 0x1000_0000
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9
_USERS = range(30_000, 60_000)
"""User ids that the usual tools assign neither to system services nor to people."""

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of one command and of everything that it starts.

    `memory_bytes` limits the address space of each process, and `file_bytes` the size of each file.
    `total_memory_bytes` limits the resident memory of all processes together, and
    `total_file_bytes` the size of the work folder. `processes` limits the number of processes and
    threads at the same time. Of the output, the first `output_bytes` are kept.
    """

    wall_s: float
    memory_bytes: int = 4 << 30
    total_memory_bytes: int = 4 << 30
    file_bytes: int = 64 << 20
    total_file_bytes: int = 1 << 30
    processes: int = 64
    open_files: int = 256
    output_bytes: int = 1 << 20


def apply(limits: Limits, *, count_processes: bool, extra_processes: int = 0) -> None:
    """Apply the limits to this process permanently, so that they cannot be raised again."""
    cpu_s = int(limits.wall_s) + 1
    wanted = {
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
    }
    if count_processes:
        wanted[resource.RLIMIT_NPROC] = limits.processes + extra_processes
    for kind, value in wanted.items():
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(kind, (value, value))


def unused_user() -> int | None:
    """A user id for one sandbox; None if this process may not change its user."""
    if os.geteuid() != 0:
        return None
    user = _USERS[os.getpid() % len(_USERS)]
    return user if _mapped(user) else None


def become(user: int) -> None:
    """Change from root to a user that owns no files. Raises `OSError`."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def enter_user_namespace() -> None:
    """Keep the user, but enter a namespace with its own process count (Linux 5.14). Raises
    `OSError`.
    """
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(_CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWUSER)")
    with contextlib.suppress(FileNotFoundError):
        _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")


def drop_capabilities(keep: Sequence[int] = ()) -> None:
    """Give up all capabilities of root except `keep`, which are numbers below 32 from
    linux/capability.h.

    With `no_new_privs`, the process cannot get the other capabilities back.
    """
    kept = sum(1 << number for number in keep)
    header = (ctypes.c_uint32 * 2)(0x2008_0522, 0)
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)(kept, kept, 0)
    if _libc.capset(header, effective_permitted_inheritable) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def die_with_parent() -> None:
    """Let the system kill this process when its parent ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def _mapped(user: int) -> bool:
    """Whether this id exists here, because a container may map only a few ids."""
    try:
        lines = Path("/proc/self/uid_map").read_text().splitlines()
    except OSError:
        return True
    ranges = [tuple(map(int, line.split())) for line in lines]
    return any(first <= user < first + count for first, _, count in ranges)


def _write(path: str, text: str) -> None:
    with Path(path).open("w") as file:
        file.write(text)
