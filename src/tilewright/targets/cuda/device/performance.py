"""What a latency is worth on a GPU: its share of the nominal peaks, and what binds."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core.records import Workload
from tilewright.parts.inputs import bytes_of
from tilewright.targets.cuda.device.process import DeviceFacts
from tilewright.targets.cuda.occupancy import Architecture

BELIEVED = 0.8
"""Of the time that the outputs need at the memory's nominal rate: less is not a measurement."""


def products_per_s(facts: DeviceFacts, architecture: Architecture) -> float:
    """Multiply-adds of float32 a second, without tensor cores, at the device's own clock rate."""
    return facts.multiprocessors * architecture.lanes * facts.clock_khz * 1e3


def bytes_per_s(facts: DeviceFacts) -> float:
    """Of memory, both edges of its clock."""
    return 2 * facts.memory_khz * 1e3 * facts.bus_bits / 8


def describe(
    workload: Workload, latency_s: float, facts: DeviceFacts, architecture: Architecture
) -> tuple[float, Mapping[str, float], str]:
    """Utilisation 0..1 of the float32 peak, numbers, and what binds, in words.

    Where the driver does not tell the clocks, only rates are said.
    """
    moved = bytes_of(workload.arguments)
    rate, traffic = workload.operations / latency_s, moved / latency_s
    numbers = {"gflop_per_s": 2e-9 * rate, "gb_per_s": 1e-9 * traffic, "array_bytes": float(moved)}
    said = f"{2e-9 * rate:,.0f} GFLOP/s, {1e-9 * traffic:,.0f} GB/s of arrays read and written once"
    products, memory = products_per_s(facts, architecture), bytes_per_s(facts)
    if not (products and memory):
        return 0.0, numbers, f"{said}; the driver does not tell the clocks, so no bound is known."
    least_s = {
        "float32 multiply-adds": workload.operations / products,
        "memory": moved / memory,
    }
    binding = max(least_s, key=lambda name: least_s[name])
    numbers["bound_ns"] = least_s[binding] * 1e9
    text = (
        f"{said}; {rate / products:.1%} of the nominal {2e-9 * products:,.0f} GFLOP/s of float32 "
        f"without tensor cores, {traffic / memory:.1%} of the nominal {1e-9 * memory:,.0f} GB/s; "
        f"bound by {binding}: {least_s[binding] * 1e6:,.1f} us at best, "
        f"{latency_s / least_s[binding]:.2f} times that were taken."
    )
    return min(1.0, rate / products), numbers, text


def least_seconds(workload: Workload, facts: DeviceFacts, calls: int) -> float:
    """Of a call: what outputs of a batch take to reach memory, but for what the cache holds."""
    memory = bytes_per_s(facts)
    written = bytes_of([a for a in workload.arguments if a.is_written])
    if not memory:
        return 0.0
    return BELIEVED * max(0.0, written - facts.cache_bytes / calls) / memory
