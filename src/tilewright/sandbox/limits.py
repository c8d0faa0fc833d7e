"""The resource limits of a sandboxed command, its separate user, and rights that root gives up."""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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


def steps(limits: Limits, *, count_processes: bool, extra_processes: int = 0) -> list[str]:
    """The launcher's steps that apply the limits, which cannot be raised again. A lower limit of
    this process stays.
    """
    wanted = {
        resource.RLIMIT_CPU: int(limits.wall_s) + 1,
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
    }
    if count_processes:
        wanted[resource.RLIMIT_NPROC] = limits.processes + extra_processes
    return [f"limit={kind}:{value}" for kind, value in wanted.items()]


def unused_user() -> int | None:
    """A user id for one sandbox; None if this process may not change its user."""
    if os.geteuid() != 0:
        return None
    user = _USERS[os.getpid() % len(_USERS)]
    return user if _mapped(user) else None


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


def _mapped(user: int) -> bool:
    """Whether this id exists here, because a container may map only a few ids."""
    try:
        lines = Path("/proc/self/uid_map").read_text().splitlines()
    except OSError:
        return True
    ranges = [tuple(map(int, line.split())) for line in lines]
    return any(first <= user < first + count for first, _, count in ranges)
