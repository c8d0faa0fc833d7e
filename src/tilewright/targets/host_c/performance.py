"""What a latency is worth on this machine: its share of the peak, and what bounds it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tilewright.core.records import Workload
from tilewright.native.calibration import Peaks
from tilewright.native.machine import processor
from tilewright.targets.host_c.shapes import output_bytes

_UNDERESTIMATE = 1.5
"""A clock may run faster while a kernel is timed than while the machine was calibrated, and was:
floors refuse results, so they are taken this many times lower than the peaks say."""


def floor_ns(workload: Workload, peaks: Peaks) -> tuple[float, str]:
    """Nanoseconds below which no right kernel can be, and the bound in words.

    Every byte of an output is written by the core. Products have no such bound: sums of operands
    may take their place.
    """
    writing_s = output_bytes(workload) / peaks.l1_write_bytes_per_s
    return writing_s / _UNDERESTIMATE * 1e9, "writing the outputs"


def describe(
    workload: Workload, latency_s: float, peaks: Peaks, threads: int = 1
) -> tuple[float, Mapping[str, float], str]:
    """Utilisation 0..1 of the multiply-adds of all threads, numbers, and what binds in words."""
    rate = workload.operations / latency_s
    moved = sum(math.prod(a.shape) * np.dtype(a.dtype).itemsize for a in workload.arguments)
    core = processor()
    homes = (
        (threads * core.l2_bytes, "the second-level cache", peaks.l2_read_bytes_per_s),
        (core.l3_bytes, "the third-level cache", peaks.l3_read_bytes_per_s),
        (moved, "memory", peaks.memory_read_bytes_per_s),
    )
    _, home, bandwidth = next(place for place in homes if moved <= place[0])
    computing_s = workload.operations / peaks.products_per_s
    moving_s = moved / bandwidth
    binds = "multiply-adds" if computing_s >= moving_s else f"moving every array once from {home}"
    least_s = max(computing_s, moving_s)
    bytes_per_operation = moved / (2 * workload.operations)
    feedback = (
        f"{2e-9 * rate:.1f} GFLOP/s, {rate / peaks.products_per_s:.1%} of the measured peak of "
        f"{2e-9 * peaks.products_per_s:.1f} ({in_words(threads)}); arrays of "
        f"{bytes_per_operation:.3g} bytes per operation, {1e-9 * moved / latency_s:.1f} GB/s, "
        f"which fit {home} ({1e-9 * bandwidth:.0f} GB/s measured).\n"
        f"The bound that binds is {binds}: {least_s * 1e9:,.0f} ns (multiply-adds "
        f"{computing_s * 1e9:,.0f} ns, arrays {moving_s * 1e9:,.0f} ns), and the kernel takes "
        f"{latency_s / least_s:.1f} times that."
    )
    numbers = {
        "gflop_per_s": 2e-9 * rate,
        "array_bytes": float(moved),
        "bytes_per_operation": bytes_per_operation,
        "bound_ns": least_s * 1e9,
    }
    return min(1.0, rate / peaks.products_per_s), numbers, feedback


def in_words(threads: int) -> str:
    """How many cores a number is for."""
    return "one core" if threads == 1 else f"{threads} cores, one thread each"
