"""Handles results above the machine's measured peak, which are timed again by wall-clock time or
refused.

Such a result can be correct if the core's clock frequency was higher than during the calibration,
or if the algorithm needs fewer products than the definition. If the kernel's process has
manipulated its own clock, wall-clock time reveals it.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from tilewright.core.records import Failed, Workload
from tilewright.native.calls import TimedKernel
from tilewright.timing import CHECKED

IMPLAUSIBLE = 2.5
"""Multiple of the peak above which only an algorithm with fewer products can be the reason."""
BATCH_CALLS, BATCH_S = 200, 2.0
"""Maximum number of calls that are timed by wall-clock time, and the seconds after which no more
calls than the minimum are made.
"""
FEWEST_CALLS = 20
SLOWER_BY_WALL_CLOCK = 1.25
"""Ratio by which the wall-clock time of a call may exceed the CPU time of its process, without the
time for communication.
"""
WAY_S = 100e-6
"""Seconds for the communication with the kernel's process, on a machine with other work."""


def times_the_peak(workload: Workload, latency_s: float, peak_per_s: float) -> float:
    """The workload's multiply-adds per second, divided by the measured peak."""
    return workload.operations / latency_s / peak_per_s


def implausible(workload: Workload, excess: float, shortcut: str) -> Failed | None:
    """The reason why a result that is `excess` times the peak is refused, or None if it is
    accepted.

    `shortcut` names a known algorithm with fewer products. The number of operations of a kernel
    folder is declared by its author and may be wrong, even if the result is correct.
    """
    if excess <= IMPLAUSIBLE or shortcut:
        return None
    said = f"{excess:.1f} times this machine's peak rate of multiply-adds"
    if Path(workload.source).is_absolute():
        log = f"{said}: the `operations` in workload.toml may be too many."
        return Failed("measure", "unconfirmed", log)
    return Failed("measure", "invalid", f"{said}, so the measurement is wrong.")


def wall_s(kernel: TimedKernel) -> float:
    """Median wall-clock seconds of a call, over a longer batch on new values.

    Raises `CallFailedError`.
    """
    end = time.monotonic() + BATCH_S
    taken: list[float] = []
    while len(taken) < BATCH_CALLS and (len(taken) < FEWEST_CALLS or time.monotonic() < end):
        kernel.call(checked=CHECKED)
        taken.append(kernel.last_wall_s)
    return statistics.median(taken)


def refuted_by_wall_clock(latency_s: float, on_the_wall_s: float, excess: float) -> Failed | None:
    """The reason why the CPU time of a kernel's process cannot be correct, or None."""
    if on_the_wall_s <= latency_s * SLOWER_BY_WALL_CLOCK + WAY_S:
        return None
    log = (
        f"the kernel's CPU time of {latency_s * 1e9:,.0f} ns would be {excess:.1f} times the "
        f"machine's measured peak, but a call takes {on_the_wall_s * 1e9:,.0f} ns of wall time. "
        "Either the machine is busy, so measure again, or the CPU time is wrong."
    )
    return Failed("measure", "unconfirmed", log)
