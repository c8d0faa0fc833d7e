"""Formats numbers and names for people."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core.gains import is_gain
from tilewright.core.text import plain_text


def number(value: float | None) -> str:
    """The number with digits in groups of three, and with decimals only if it is small."""
    if value is None:
        return "-"
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def ratio(value: float | None) -> str:
    """A speedup, for instance "2.91x". Values near 1 have a third decimal, so that they are not
    shown as 1.
    """
    if value is None:
        return "-"
    hidden = f"{value:.2f}" == "1.00" and f"{value:.3f}" != "1.000"
    return f"{value:.3f}x" if hidden else f"{value:.2f}x"


def gain(speedup: float | None, noise: float) -> str:
    """The speedup of a best kernel, or "within noise" if noise explains it. `noise` is the sum of
    the noise of both measurements, as a share.
    """
    if speedup is not None and speedup > 1 and not is_gain(speedup, noise):
        return "within noise"
    return ratio(speedup)


def last_line(log: str) -> str:
    """The last line of a log, which names the error in a traceback, without control characters."""
    return plain_text((log.strip().splitlines() or ["no reason was given"])[-1])


def percent(fraction: float | None) -> str:
    """A fraction of 1 as percent with one decimal."""
    return "-" if fraction is None else f"{100 * fraction:.1f} %"


def share(part: float, whole: float | None) -> str:
    """`part` as a percentage of `whole`; empty if `whole` is zero."""
    return percent(part / whole) if whole else ""


def duration(seconds: float) -> str:
    """Seconds as "0.42 s", "38 s", "2 min 5 s" or "1 h 12 min"."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def moment(timestamp: str) -> str:
    """An ISO timestamp in UTC to the minute, for instance "2026-11-21 02:40 UTC"."""
    return f"{timestamp[:16].replace('T', ' ')} UTC"


def words(name: str) -> str:
    """An identifier as words."""
    return name.replace("_", " ").replace("-", " ")


MEASUREMENTS = {
    "accumulator_kb": ("accumulator written", "KB"),
    "array_bytes": ("size of the arrays", "bytes"),
    "baseline_ns": ("starting kernel, timed at the same time", "ns"),
    "bound_ns": ("lower bound", "ns"),
    "bytes_loaded_again": ("read from device memory more than once", "bytes"),
    "bytes_of_intermediates": ("intermediate results stored to device memory and loaded", "bytes"),
    "bytes_per_operation": ("bytes moved per operation", ""),
    "bytes_read": ("read from device memory", "bytes"),
    "bytes_spilled": ("spilled to device memory", "bytes"),
    "bytes_written": ("written to device memory", "bytes"),
    "converting_copies": ("copies that convert the type", ""),
    "converting_transfers": ("transfers that convert the type", ""),
    "counter_cache_percent": ("hits in the second-level cache", "%"),
    "counter_memory_percent": ("memory throughput, of the peak", "%"),
    "counter_multiprocessors_percent": ("multiprocessor throughput, of the peak", "%"),
    "counter_occupancy_percent": ("resident warps", "%"),
    "counter_tensor_cores_percent": ("time in which the tensor cores were busy", "%"),
    "event_ns": ("time of a call of the last batch by the GPU's events", "ns"),
    "fresh_sessions": ("new processes that timed the kernel", ""),
    "gb_per_s": ("arrays read and written once", "GB/s"),
    "gflop_per_s": ("arithmetic rate", "GFLOP/s"),
    "kernelbench_1e-2": ("accepted by KernelBench's rule at 1e-2 (1: yes)", ""),
    "kernelbench_1e-4": ("accepted by KernelBench's rule at 1e-4 (1: yes)", ""),
    "l2_hit": ("second-level cache hits", ""),
    "l2_miss": ("second-level cache misses", ""),
    "launch_ns": ("fixed time of a launch", "ns"),
    "macs": ("multiply-adds", ""),
    "mispredictions": ("mispredicted branches", ""),
    "on_few_partitions": ("instructions on at most half of the partitions", ""),
    "percent_of_baseline": ("share of the starting kernel's time", "%"),
    "percent_of_baseline_high": ("upper end of its confidence interval", "%"),
    "percent_of_baseline_low": ("lower end of its confidence interval", "%"),
    "product_rows": ("rows that the array multiplied", ""),
    "products": ("instructions of the matrix unit", ""),
    "products_with_a_column_of_ones": ("products with a tile of ones", ""),
    "registers": ("registers per thread", ""),
    "repeated_reductions": ("reductions computed more than once", ""),
    "rescaling_exponentials": ("exponentials of one element in each partition", ""),
    "scaled_before_activation": ("activations of a scaled operand", ""),
    "scratchpad_kb": ("scratchpad written", "KB"),
    "shifted_windows": ("operands that overlap an earlier operand", ""),
    "single_element_transfers": ("transfers of single elements", ""),
    "spilled_bytes": ("spilled registers", "bytes"),
    "tera_operations_per_s": ("arithmetic rate", "TOPS"),
    "tile_load_bytes": ("loaded into tiles", "bytes"),
    "tile_load_bytes_per_operation": ("bytes loaded into tiles per operation", ""),
    "tile_loads_ns": ("lower bound of the tile loads", "ns"),
    "timed_pairs": ("timed pairs of calls, one of the starting kernel", ""),
    "transfers": ("transfers between memories", ""),
    "transposes": ("transposes on engines", ""),
}
"""Names and units of measurements of a kernel, by the name with which evaluators store them."""


def measurement(name: str, value: float) -> tuple[str, str]:
    """The name of a measurement of a kernel in words, and its value with the unit.

    A measurement without an entry in `MEASUREMENTS` is named by the words of its identifier.
    """
    label, unit = MEASUREMENTS.get(name, (words(name), ""))
    shown = f"{value:.1f}" if unit == "%" else number(value)
    return label, f"{shown} {unit}".rstrip()


def measurements(details: Mapping[str, float]) -> list[tuple[str, str]]:
    """All measurements of a kernel as `measurement` gives them, except counts that are zero.

    Evaluators also count what a kernel does not do, which says nothing about its time.
    """
    return [
        measurement(name, value)
        for name, value in details.items()
        if value or MEASUREMENTS.get(name, ("", ""))[1]
    ]


def diff_class(line: str) -> str:
    """Style class of a line of a unified diff."""
    return {"+": "added", "-": "removed", "@": "place"}.get(line[:1], "same")
