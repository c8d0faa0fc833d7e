"""Hardware counters of a kernel's process, opened by the evaluator through perf_event_open(2).

Events in user mode are counted, on all threads that the process has when counting begins.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping
from pathlib import Path

_CALLS = {"x86_64": 298, "aarch64": 241}
_ATTRIBUTE = struct.Struct("=IIQQQQQ")
"""type, size, config, sample_period, sample_type, read_format, flags of perf_event_attr."""
_ATTRIBUTE_BYTES = 112
_TIMES = 3  # read_format: PERF_FORMAT_TOTAL_TIME_ENABLED and _RUNNING
_EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 5, 1 << 6
_HARDWARE = 0
_libc = ctypes.CDLL(None, use_errno=True)

Events = Mapping[str, tuple[int, int]]
"""Type and number of each event, see perf_event_open(2)."""
EVENTS: Events = {"cycles": (_HARDWARE, 0), "instructions": (_HARDWARE, 1),
                  "cache_misses": (_HARDWARE, 3)}  # fmt: skip


class Counters:
    """Counters of a process from now on, without those that this machine does not offer.

    Raises `OSError` if the machine offers no counters, or does not allow reading them.
    """

    def __init__(self, pid: int, events: Events = EVENTS) -> None:
        self._open: list[tuple[str, int]] = []
        refused: OSError | None = None
        threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208 (names)
        for name, (kind, number) in events.items():
            try:
                for thread in threads:
                    self._open.append((name, _opened(kind, number, thread)))
            except OSError as error:
                refused = refused or error
        if not self._open and refused is not None:
            raise refused

    def close(self) -> None:
        """Stop counting."""
        for _, file in self._open:
            os.close(file)
        self._open = []

    def counts(self) -> dict[str, float]:
        """The totals so far, which are extrapolated if the counters could not all run at the same
        time.
        """
        totals: dict[str, float] = {}
        for name, file in self._open:
            value, enabled, running = struct.unpack("=QQQ", os.read(file, 24))
            totals[name] = totals.get(name, 0.0) + value * (enabled / running if running else 0.0)
        return totals


def why_not(error: OSError) -> str:
    """The reason why counters cannot be read, as the end of a sentence."""
    if error.errno in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV, errno.EINVAL):
        return "the processor or the virtual machine offers none"
    if error.errno in (errno.EACCES, errno.EPERM):
        level = _paranoid()
        if level.lstrip("-").isdigit() and int(level) <= 2:
            return "the system does not allow it, usually because a container filters system calls"
        return (
            f"the system does not allow it (kernel.perf_event_paranoid is {level}: set it to 2 or "
            "less, and let containers call perf_event_open)"
        )
    return f"the system refuses ({error.strerror})"


def availability(events: Events = EVENTS) -> str | None:
    """The reason why this machine offers no counters, or None."""
    try:
        Counters(os.getpid(), events).close()
    except OSError as error:
        return why_not(error)
    return None


def _opened(kind: int, number: int, thread: int) -> int:
    """A descriptor that counts one event on one thread. Raises `OSError`."""
    call = _CALLS.get(platform.machine())
    if call is None:
        raise OSError(
            errno.ENODEV,
            "the number of the system call perf_event_open is not known for this processor",
        )
    flags = _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    attribute = _ATTRIBUTE.pack(kind, _ATTRIBUTE_BYTES, number, 0, 0, _TIMES, flags)
    buffer = ctypes.create_string_buffer(attribute, _ATTRIBUTE_BYTES)
    close_on_exec = 8
    file: int = _libc.syscall(call, buffer, thread, -1, -1, close_on_exec)
    if file < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return file


def _paranoid() -> str:
    try:
        return Path("/proc/sys/kernel/perf_event_paranoid").read_text().strip()
    except OSError:
        return "not known"
