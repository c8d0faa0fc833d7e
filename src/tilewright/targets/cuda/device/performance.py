"""Compares a latency with the peak rates of a GPU, and names the limiting bound."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core.records import Failed, Workload
from tilewright.native.plausibility import IMPLAUSIBLE, implausible, times_the_peak
from tilewright.parts.inputs import bytes_of
from tilewright.targets.cuda.device.peaks import Peaks
from tilewright.targets.cuda.device.process import DeviceFacts

BELIEVED = 0.8
"""A latency is refused if it is below this share of the time for writing the outputs at the
memory's peak rate.
"""
_PRODUCTS = {"": "float32 without tensor cores", "tf32-like": "tf32 on tensor cores (wmma)",
             "bf16-like": "bfloat16 on tensor cores (wmma)"}  # fmt: skip
_BOUNDS = {"memory": "memory", "products": "multiply-adds"}
_NO_PEAK = "the driver does not report clock rates and no peak was measured, so no bound is known."


def _shown(rate: float) -> str:
    """A rate with at least three digits, also if it is small."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def describe(
    workload: Workload, latency_s: float, peaks: Peaks, lowest: str
) -> tuple[float, Mapping[str, float], str, str]:
    """The share (0 to 1) of the peak of the `lowest` accepted precision, numbers, the limiting
    bound in words, and the same as `memory` or `products` (empty if no bound is known).

    If tensor cores may be used, the bound is only that of the memory, because `wmma` does not reach
    their full rate. If no peak is known, only rates are given.
    """
    moved = bytes_of(workload.arguments)
    rate, traffic = workload.operations / latency_s, moved / latency_s
    numbers = {"gflop_per_s": 2e-9 * rate, "gb_per_s": 1e-9 * traffic, "array_bytes": float(moved)}
    said = (
        f"{_shown(2e-9 * rate)} GFLOP/s, {_shown(1e-9 * traffic)} GB/s of arrays read and written "
        "once"
    )
    products, memory = peaks.products_per_s(lowest), peaks.bytes_per_s
    if not memory or not (products or lowest):
        return 0.0, numbers, f"{said}; {_NO_PEAK}", ""
    least_s = {"memory": moved / memory}
    if products:
        least_s["products"] = workload.operations / products
    binding = max(least_s, key=lambda name: least_s[name])
    numbers["bound_ns"] = (least_s["memory"] if lowest else least_s[binding]) * 1e9
    shares = f"{traffic / memory:.1%} of the {peaks.quantity} peak of {_shown(1e-9 * memory)} GB/s"
    if products:
        shares = (
            f"{rate / products:.1%} of the {peaks.quantity} peak of {_shown(2e-9 * products)} "
            f"GFLOP/s of {_PRODUCTS[lowest]}, {shares}"
        )
    text = (
        f"{said}; {shares}; bound by {_BOUNDS[binding]}: {least_s[binding] * 1e6:,.1f} us at the "
        f"peak, and the kernel takes {latency_s / least_s[binding]:.2f} times as long."
    )
    if peaks.quantity == "nominal":
        text += (
            " No peak was measured on this GPU: these are computed from the clock rates that its "
            "driver reports."
        )
    return (min(1.0, rate / products) if products else 0.0), numbers, text, binding


def too_fast(
    workload: Workload, latency_s: float, peaks: Peaks, facts: DeviceFacts, *, needed: bool
) -> tuple[Failed | None, tuple[str, ...]]:
    """The reason why a latency is refused, or None, and warnings.

    The latency is compared with the peak rates. The outputs of a call must be written to memory,
    except for the part that the cache can hold. `needed` is true if no known algorithm needs far
    fewer multiply-adds than the workload states; otherwise, a result above the measured peak only
    gets a warning.
    """
    written = bytes_of([a for a in workload.arguments if a.is_written])
    if peaks.bytes_per_s:
        least_s = BELIEVED * max(0.0, written - facts.cache_bytes) / peaks.bytes_per_s
        if latency_s < least_s:
            log = f"{latency_s * 1e6:.3g} us: writing the outputs takes {least_s * 1e6:.3g}."
            return Failed("measure", "invalid", log), ()
    if peaks.quantity == "nominal":
        return None, ()  # the rate of the tensor cores is not known
    excess = times_the_peak(workload, latency_s, peaks.most_products_per_s)
    if needed or excess <= IMPLAUSIBLE:
        return implausible(workload, excess, ""), ()
    warning = (
        f"{excess:.1f} times this GPU's peak rate of multiply-adds: the kernel needs fewer "
        "multiply-adds than the workload's definition, or the measurement is wrong."
    )
    return None, (warning,)
