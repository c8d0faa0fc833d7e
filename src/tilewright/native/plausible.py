"""Results above the machine's measured peak: timed again by the clock on the wall, or refused.

Honest reasons are a clock of the core that ran faster than during the calibration, and algorithms
with fewer products than the definition. What the kernel's process could have done to its own clock
shows on the wall.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from tilewright.core.records import Failed, Workload
from tilewright.native.calls import TimedKernel
from tilewright.timing import CHECKED

BEYOND_BELIEF = 2.5
"""So many times the peak has no honest reason but an algorithm with fewer products."""
BATCH_CALLS, BATCH_S = 200, 2.0
"""Most calls by the clock on the wall, and what they may take where that allows more than few."""
FEWEST_CALLS = 20
SLOWER_BY_THE_WALL = 1.25
"""How much longer a call may take on the wall than by its process's clock, beside the way there."""
WAY_S = 100e-6
"""To the kernel's process and back: two wake-ups, on a machine with other work."""


def times_the_peak(workload: Workload, latency_s: float, peak_per_s: float) -> float:
    """The workload's multiply-adds per second over those that were measured at best."""
    return workload.operations / latency_s / peak_per_s


def beyond_belief(workload: Workload, excess: float, shortcut: str) -> Failed | None:
    """Why a result that is `excess` times the peak does not count, or None if it does.

    `shortcut` names an algorithm with fewer products that is known for the task. The operations
    of a folder are what its author declared: they may be wrong and the result right.
    """
    if excess <= BEYOND_BELIEF or shortcut:
        return None
    said = f"{excess:.1f} times the multiply-adds per second that this machine does at best"
    if Path(workload.source).is_absolute():
        log = f"{said}: `operations` of the folder may be more than the kernel has to do."
        return Failed("measure", "unconfirmed", log)
    return Failed("measure", "invalid", f"{said}, so the measurement is wrong.")


def wall_s(kernel: TimedKernel) -> float:
    """Median seconds of a call by the clock on the wall, over a longer batch on new values.

    Raises `CallFailedError`.
    """
    end = time.monotonic() + BATCH_S
    taken: list[float] = []
    while len(taken) < BATCH_CALLS and (len(taken) < FEWEST_CALLS or time.monotonic() < end):
        kernel.call(checked=CHECKED)
        taken.append(kernel.last_wall_s)
    return statistics.median(taken)


def refuted_by_the_wall(latency_s: float, on_the_wall_s: float, excess: float) -> Failed | None:
    """Why the clock of a kernel's process is not believed, or None."""
    if on_the_wall_s <= latency_s * SLOWER_BY_THE_WALL + WAY_S:
        return None
    log = (
        f"{latency_s * 1e9:,.0f} ns would be {excess:.1f} times the machine's measured peak, and "
        f"by the clock on the wall a call takes {on_the_wall_s * 1e9:,.0f} ns: either the machine "
        "is busy, then measure again, or the kernel is not that fast."
    )
    return Failed("measure", "unconfirmed", log)
