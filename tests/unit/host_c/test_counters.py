"""Counters of another process, and what is said where there are none."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import cast

import pytest

from tilewright.native import counters
from tilewright.native.calls import TimedKernel
from tilewright.native.candidate_timing import counted
from tilewright.native.counters import Counters, availability, why_not

CPU_TIME = {"nanoseconds": (1, 1)}
"""PERF_COUNT_SW_TASK_CLOCK: counted by the operating system on any processor."""


@pytest.fixture
def busy() -> Iterator[int]:
    """A process with two threads that work."""
    work = "import threading\ndef spin():\n  while True: sum(range(1000))\n"
    work += "threading.Thread(target=spin, daemon=True).start()\nprint(flush=True)\nspin()"
    with subprocess.Popen([sys.executable, "-c", work], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_another_process_is_counted_with_all_its_threads(busy: int) -> None:
    lacking = availability(CPU_TIME)
    if lacking is not None:
        pytest.skip(f"no counters of the operating system either: {lacking}")
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    counting = Counters(busy, {**CPU_TIME, "no such event": (1, 99999)})
    assert len(os.listdir("/proc/self/fd")) == descriptors + 2  # noqa: PTH208
    seen = [0.0]
    while len(seen) < 4:
        time.sleep(0.01)
        found = counting.counts()
        assert set(found) == {"nanoseconds"}
        if found["nanoseconds"] > seen[-1]:
            seen.append(found["nanoseconds"])
    counting.close()
    assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208


@pytest.mark.parametrize(
    ("number", "paranoid", "says"),
    [
        (errno.ENOENT, "2", "virtual machine"),
        (errno.EACCES, "4", "perf_event_paranoid is 4: set it to 2"),
        (errno.EPERM, "not known", "perf_event_open"),
        (errno.EPERM, "2", "a container filters"),
        (errno.ENOSYS, "2", "Function not implemented"),
    ],
)
def test_what_keeps_counters_from_being_read_is_said(
    number: int, paranoid: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(kind: int, event: int, thread: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(counters, "_opened", refuse)
    monkeypatch.setattr(counters, "_paranoid", lambda: paranoid)
    assert says in str(availability())
    with pytest.raises(OSError, match=os.strerror(number)) as raised:
        Counters(os.getpid())
    assert says in why_not(raised.value)


class Counted:
    def __init__(self, found: dict[str, float] | OSError) -> None:
        self.found = found

    def counts(self) -> dict[str, float]:
        if isinstance(self.found, OSError):
            raise self.found
        return self.found


@pytest.mark.parametrize(
    ("found", "says", "details"),
    [
        (
            {"cycles": 2000.0, "instructions": 5000.0, "cache_misses": 7.0},
            "2,000 cycles, 5,000 instructions, 7 cache misses (2.50 instructions per cycle)",
            {"cycles_per_call": 2000, "instructions_per_call": 5000, "cache_misses_per_call": 7},
        ),
        ({"cycles": 2000.0}, "2,000 cycles.", {"cycles_per_call": 2000}),
        (OSError(errno.ENOENT, ""), "No hardware counters: the processor or", {}),
    ],
)
def test_a_measurement_says_what_was_counted_or_why_nothing_was(
    found: dict[str, float] | OSError, says: str, details: dict[str, float]
) -> None:
    numbers, words = counted(cast(TimedKernel, Counted(found)))
    assert says in words
    assert numbers == details
