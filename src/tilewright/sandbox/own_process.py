"""Sandboxes the calling process, for workers that simulate binaries of candidates.

If a binary takes over the simulator through a defect, it controls only a process that can read
files, but can write only to its temporary folder, has no network, and cannot inspect other
processes. Commands that such a process starts run in another `Sandbox`, which uses Landlock,
because bubblewrap cannot mount anything there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tilewright.sandbox import landlock, limits, seccomp
from tilewright.sandbox.confine import DEVICES

_NEEDED = ("kill", "tgkill", "pidfd_open", "setsid", "setpgid", "unshare")
"""System calls that this process needs to start sandboxed processes itself."""

_SIZE_BYTES = 8
"""Number of bytes that give the size of a result, before the result."""

_CHOWN, _DAC_OVERRIDE, _FOWNER, _KILL, _SETGID, _SETUID = 0, 1, 3, 5, 6, 7
_CAPABILITIES = (_CHOWN, _DAC_OVERRIDE, _FOWNER, _KILL, _SETGID, _SETUID)
"""Capabilities that root keeps, to start children as another user and to remove their files."""


def contain_this_process(writable: Path | None = None) -> str | None:
    """Permanently give up all rights except reading files and writing to `writable`, if it is
    given.

    Returns the name of the level, as it is recorded with results, or None if the sandbox is not
    available. This is the case without Landlock, and in a process with several threads, because the
    other threads would keep their rights.
    """
    if sys.platform != "linux" or not landlock.abi() or has_threads():
        return None
    root = os.geteuid() == 0
    # In /proc, a process without root writes the user maps of its children's namespaces.
    written = DEVICES if root else (*DEVICES, Path("/proc"))
    try:
        rules = landlock.ruleset([Path("/")], [writable] if writable else [], written)
    except OSError:
        return None
    try:
        if root:
            limits.drop_capabilities(keep=_CAPABILITIES)
        seccomp.forbid_new_privileges()
        landlock.restrict_self(rules)
    finally:
        os.close(rules)
    code = seccomp.create_filter(allowed=_NEEDED)
    if code is None:
        return "landlock"
    seccomp.install(code)
    return "landlock+seccomp"


def call_contained(function: Callable[[], bytes | Iterable[memoryview]]) -> bytes:
    """Call `function` in a sandboxed child of this process, and return its result.

    If it returns several buffers, the result is their concatenation.

    Only the result is returned, and all changes to the child's memory are lost. Raises `OSError` if
    the function does not return, for whatever reason.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            contain_this_process()
            with os.fdopen(writing, "wb") as pipe:
                found = function()
                parts = [found] if isinstance(found, bytes) else list(found)
                size = sum(memoryview(part).nbytes for part in parts)
                pipe.writelines([size.to_bytes(_SIZE_BYTES), *parts])
            status = 0
        finally:  # an exception must not run the parent's code in this child process
            os._exit(status)
    try:
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            # With the size, gigabytes are read into memory that is allocated once.
            data = pipe.read(int.from_bytes(pipe.read(_SIZE_BYTES)))
    except (MemoryError, OverflowError) as error:
        raise OSError("a process in the sandbox returned too much data") from error
    finally:
        _, ended = os.waitpid(child, 0)
    if ended != 0:
        raise OSError(f"a contained process ended with status {os.waitstatus_to_exitcode(ended)}")
    return data


def has_threads() -> bool:
    """Whether this process has several threads."""
    return sum(1 for _ in Path("/proc/self/task").iterdir()) > 1
