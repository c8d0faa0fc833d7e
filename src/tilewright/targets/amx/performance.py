"""Compares a latency with the peak of the tile multiplier, and names the limiting bound."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilewright.core.errors import UnknownNameError, WorkloadError
from tilewright.core.records import Workload
from tilewright.native.calibration import Peaks
from tilewright.native.evaluator import Counts
from tilewright.native.roofline import roofline
from tilewright.parts.inputs import bytes_of
from tilewright.targets.amx.elements import Element
from tilewright.targets.amx.shapes import parse_shape


def certain_operations(workload: Workload, element: Element) -> int:
    """The number of multiply-adds that every correct kernel needs, as far as it is known.

    For a registered workload, the number follows from its sizes. A folder declares the number
    itself. The declared number is limited to that of a matrix product with arrays of these sizes,
    which is the root of the product of the three largest sizes (Loomis and Whitney), so that a
    mistake in the file does not cause correct kernels to be refused.
    """
    try:
        return parse_shape(workload.source, element).operations
    except (UnknownNameError, WorkloadError):
        sizes = sorted(math.prod(a.shape) for a in workload.arguments)
        return min(workload.operations, math.isqrt(math.prod(sizes[-3:])))


LOADED = "tile_load_bytes"
"""The name of the count of bytes that tile loads read in one call."""


def loads_in_words(workload: Workload, counts: Counts) -> str:
    """A clause on the bytes that tile loads read, per operation and relative to the size of the
    arrays.
    """
    loaded = counts[LOADED]
    each = loaded / (2 * workload.operations)
    return (
        f"its tile loads read {loaded:,} bytes, {each:.3g} per operation and "
        f"{loaded / bytes_of(workload.arguments):.1f} times what the arrays hold"
    )


def described(
    workload: Workload, latency_s: float, peak: float, around: Peaks, counts: Counts
) -> tuple[float, Mapping[str, float], str]:
    """The utilisation (0 to 1), numbers, and feedback in words; `peak` is the peak rate of
    multiply-adds per second.

    In addition to the bounds of every kernel, tile loads are a bound of this kernel, because they
    take at least the time for their bytes at the rate of the first-level cache.
    """
    rate = workload.operations / latency_s
    bound = roofline(workload, peak, around)
    feedback = (
        f"The kernel reaches {2e-12 * rate:.3f} TOPS, which is {rate / peak:.1%} of the tiles' "
        f"measured peak of {2e-12 * peak:.2f} TOPS. Its arrays have "
        f"{bound.bytes_per_operation:.3g} bytes per operation and fit {bound.home} "
        f"({1e-9 * bound.bandwidth:.0f} GB/s were measured there).\n"
        f"{bound.in_words('products', latency_s)}. The second-level cache delivers "
        f"{1e-9 * around.l2_read_bytes_per_s:.0f} GB/s to tiles loaded from it."
    )
    numbers = {
        "tera_operations_per_s": 2e-12 * rate,
        "bytes_per_operation": bound.bytes_per_operation,
        "bound_ns": bound.least_s * 1e9,
    }
    if LOADED in counts:
        loading_s = counts[LOADED] / around.l1_read_bytes_per_s
        numbers |= {
            LOADED: float(counts[LOADED]),
            "tile_load_bytes_per_operation": counts[LOADED] / (2 * workload.operations),
            "tile_loads_ns": loading_s * 1e9,
        }
        said = loads_in_words(workload, counts)
        feedback += f"\n{said[0].upper()}{said[1:]}: {loading_s * 1e9:,.0f} ns at the first-level "
        feedback += f"cache's {1e-9 * around.l1_read_bytes_per_s:.0f} GB/s" + (
            ", which limits this kernel." if loading_s > bound.least_s else "."
        )
    return min(1.0, rate / peak), numbers, feedback
