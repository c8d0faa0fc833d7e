"""Compares a latency with the peak of this machine, and names the limiting bound."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.core.records import Workload
from tilewright.native.calibration import Peaks
from tilewright.native.roofline import roofline
from tilewright.targets.host_c.shapes import output_bytes

_UNDERESTIMATE = 1.5
"""A clock may run faster while a kernel is timed than it did while the machine was calibrated:
floors refuse results, so they are taken this many times lower than the peaks say."""


def products_per_s(workload: Workload, peaks: Peaks) -> float:
    """The peak rate of multiply-adds on the types of a workload's inputs.

    `Peaks` has that of float32. If all inputs are integers, instructions for dot products take
    four of 8 bits or two of 16 bits for each float32.
    """
    only_whole = all(t.kind in "iu" for t in _types(workload))
    return peaks.products_per_s * (_products_per_lane(workload) if only_whole else 1)


def _types(workload: Workload) -> list[np.dtype[np.generic]]:
    return [np.dtype(a.dtype) for a in workload.arguments if a.role == "input"]


def _products_per_lane(workload: Workload) -> int:
    """The most products that an instruction can compute in each lane of 32 bits, if the kernel
    computes with its inputs of the fewest bits.
    """
    return max([1, *(4 // t.itemsize for t in _types(workload) if t.kind in "iu")])


def floor_ns(workload: Workload, peaks: Peaks) -> tuple[float, str]:
    """A lower bound on the nanoseconds of any correct kernel, and the bound in words.

    The core must write every byte of an output. There is no bound from products, because an
    algorithm may replace products by sums of operands.
    """
    writing_s = output_bytes(workload) / peaks.l1_write_bytes_per_s
    return writing_s / _UNDERESTIMATE * 1e9, "writing the outputs"


def describe(
    workload: Workload, latency_s: float, peaks: Peaks, threads: int = 1
) -> tuple[float, Mapping[str, float], str]:
    """The utilisation (0 to 1) of the multiply-adds of all threads, numbers, and the limiting bound
    in words.

    The bound is that of the fastest multiply-adds that a kernel may use, which are those of the
    inputs with the fewest bits, although a kernel also may compute with floats.
    """
    rate = workload.operations / latency_s
    peak = products_per_s(workload, peaks)
    in_lane = _products_per_lane(workload)
    highest = peaks.products_per_s * in_lane
    bound = roofline(workload, highest, peaks, threads)
    products = "float32 multiply-adds"
    if in_lane > 1:
        each = "four" if in_lane == 4 else "two"
        products = f"multiply-adds of {32 // in_lane}-bit numbers, {each} in each 32-bit lane"
    as_floats = (
        f" As float32 multiply-adds, they take at least {workload.operations / peak * 1e9:,.0f} ns."
        if highest > peak
        else ""
    )
    feedback = (
        f"The kernel reaches {2e-9 * rate:.1f} GFLOP/s, which is "
        f"{rate / peak:.1%} of the measured peak of "
        f"{2e-9 * peak:.1f} GFLOP/s ({in_words(threads)}). Its arrays have "
        f"{bound.bytes_per_operation:.3g} bytes per operation and fit {bound.home}. The kernel "
        f"moves them at {1e-9 * bound.moved_bytes / latency_s:.1f} GB/s "
        f"({1e-9 * bound.bandwidth:.0f} GB/s were measured there).\n"
        f"{bound.in_words(products, latency_s)}.{as_floats}"
    )
    numbers = {
        "gflop_per_s": 2e-9 * rate,
        "array_bytes": float(bound.moved_bytes),
        "bytes_per_operation": bound.bytes_per_operation,
        "bound_ns": bound.least_s * 1e9,
    }
    return min(1.0, rate / peak), numbers, feedback


def in_words(threads: int) -> str:
    """A text on the number of cores to which a number refers."""
    return "one core" if threads == 1 else f"{threads} cores, one thread each"
