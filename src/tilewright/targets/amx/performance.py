"""What a latency is worth: its share of the multiplier's peak, and which bound binds."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tilewright.core.errors import UnknownNameError, WorkloadError
from tilewright.core.records import Workload
from tilewright.native.calibration import Peaks
from tilewright.native.machine import processor
from tilewright.targets.amx.elements import Element
from tilewright.targets.amx.shapes import parse_shape


def certain_operations(workload: Workload, element: Element) -> int:
    """Multiply-adds that a right kernel cannot do without, as far as this is known.

    A registered workload's are counted. A folder says itself how many it has: it is believed as
    far as a product of matrices of its arrays' sizes goes, which is the root of the product of the
    three largest sizes (Loomis and Whitney), so that a slip in a file makes no right kernel
    impossible.
    """
    try:
        return parse_shape(workload.source, element).operations
    except (UnknownNameError, WorkloadError):
        sizes = sorted(math.prod(a.shape) for a in workload.arguments)
        return min(workload.operations, math.isqrt(math.prod(sizes[-3:])))


def described(
    workload: Workload, latency_s: float, peak: float, around: Peaks
) -> tuple[float, Mapping[str, float], str]:
    """Utilisation 0..1, numbers, and feedback in words; `peak` are multiply-adds per second."""
    rate = workload.operations / latency_s
    moved = sum(math.prod(a.shape) * np.dtype(a.dtype).itemsize for a in workload.arguments)
    core = processor()
    homes = (
        (core.l2_bytes, "the second-level cache", around.l2_read_bytes_per_s),
        (core.l3_bytes, "the third-level cache", around.l3_read_bytes_per_s),
        (moved, "memory", around.memory_read_bytes_per_s),
    )
    _, home, bandwidth = next(place for place in homes if moved <= place[0])
    computing_s, moving_s = workload.operations / peak, moved / bandwidth
    binds = "products" if computing_s >= moving_s else f"moving every array once from {home}"
    least_s = max(computing_s, moving_s)
    per_operation = moved / (2 * workload.operations)
    feedback = (
        f"{2e-12 * rate:.3f} TOPS, {rate / peak:.1%} of the tiles' measured peak of "
        f"{2e-12 * peak:.2f}; arrays of {per_operation:.3g} bytes per operation, which fit {home} "
        f"({1e-9 * bandwidth:.0f} GB/s measured).\n"
        f"The bound that binds is {binds}: {least_s * 1e9:,.0f} ns (products "
        f"{computing_s * 1e9:,.0f} ns, arrays {moving_s * 1e9:,.0f} ns), and the kernel takes "
        f"{latency_s / least_s:.1f} times that; the second-level cache delivers "
        f"{1e-9 * around.l2_read_bytes_per_s:.0f} GB/s to tiles loaded from it."
    )
    numbers = {
        "tera_operations_per_s": 2e-12 * rate,
        "bytes_per_operation": per_operation,
        "bound_ns": least_s * 1e9,
    }
    return min(1.0, rate / peak), numbers, feedback
