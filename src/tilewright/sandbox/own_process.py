"""Sandboxes the calling process, for workers that simulate binaries of candidates.

A defect that lets a binary take over the simulator then gives it a process that reads files, but
writes to its temporary folder only, has no network, and cannot look into other processes. What
such a process starts is contained once more by `Sandbox`; bubblewrap, which mounts, cannot run
below it, so that Landlock contains there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tilewright.sandbox import landlock, limits, seccomp
from tilewright.sandbox.confine import DEVICES

_NEEDED = ("kill", "tgkill", "pidfd_open", "setsid", "setpgid", "unshare")
"""System calls that only a process which contains others makes."""

_CHOWN, _DAC_OVERRIDE, _FOWNER, _KILL, _SETGID, _SETUID = 0, 1, 3, 5, 6, 7
_CAPABILITIES = (_CHOWN, _DAC_OVERRIDE, _FOWNER, _KILL, _SETGID, _SETUID)
"""Capabilities that root keeps, to start children as another user and to remove their files."""


def contain_this_process(writable: Path | None = None) -> str | None:
    """Permanently give up all rights except reading files and writing to `writable`, if it is
    given.

    The name of the level, as it is recorded with results; None where it cannot be had: without
    Landlock, or with threads, which would keep their rights.
    """
    if sys.platform != "linux" or not landlock.abi() or _has_threads():
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
    seccomp.install(seccomp.program(code))
    return "landlock+seccomp"


def call_contained(function: Callable[[], bytes | Iterable[memoryview]]) -> bytes:
    """Call `function` in a sandboxed child of this process, and return its result.

    If it returns several buffers, the result is their concatenation.

    Nothing else comes back: what it did to its memory ends with it. `OSError` when it did not
    return, whatever the reason.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            contain_this_process()
            with os.fdopen(writing, "wb") as pipe:
                found = function()
                pipe.writelines([found] if isinstance(found, bytes) else found)
            status = 0
        finally:  # an exception must not run the parent's code in this child process
            os._exit(status)
    try:
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            data = pipe.read()
    finally:
        _, ended = os.waitpid(child, 0)
    if ended != 0:
        raise OSError(f"a contained process ended with status {os.waitstatus_to_exitcode(ended)}")
    return data


def _has_threads() -> bool:
    return sum(1 for _ in Path("/proc/self/task").iterdir()) > 1
