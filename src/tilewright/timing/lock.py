"""A lock that allows only one measurement at a time on a device, for all processes and users of the
machine.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tilewright.core.errors import DeviceBusyError

_POLL_S = 0.05
_SHARED = Path("/tmp")


@contextmanager
def exclusive(device: str, wait_s: float | None = None) -> Iterator[None]:
    """A context manager that locks `device` ("cpu0", "cuda:1"). It waits up to `wait_s` seconds, or
    without a limit.

    The lock is a file in the machine's folder for temporary files, even if this process has its own
    temporary folder, as evaluating processes do. The system releases the lock when the process
    ends. Take the lock before a clock or a time-out starts, so that waiting is not included. Raises
    `DeviceBusyError` if the lock is not free in time.
    """
    folder = _SHARED if os.access(_SHARED, os.W_OK) else Path(tempfile.gettempdir())
    file = _open(folder / f"tilewright-{re.sub(r'[^A-Za-z0-9]+', '-', device)}.lock")
    try:
        _acquire(file, device, wait_s)
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(file)


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        # Another user's file in a sticky folder may be opened, but not with O_CREAT.
        return os.open(path, flags)
    except FileNotFoundError:
        pass
    mask = os.umask(0)
    try:
        return os.open(path, flags | os.O_CREAT, 0o666)
    finally:
        os.umask(mask)


def _acquire(file: int, device: str, wait_s: float | None) -> None:
    if wait_s is None:  # woken at once when the holder is done
        fcntl.flock(file, fcntl.LOCK_EX)
        return
    end = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
        if time.monotonic() >= end:
            holder = os.pread(file, 32, 0).decode(errors="replace") or "unknown"
            raise DeviceBusyError(
                f"process {holder} still measures on device {device} after {wait_s:g} s. Wait for "
                "it, or allow a longer wait."
            )
        time.sleep(_POLL_S)
