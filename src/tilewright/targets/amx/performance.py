"""What a latency is worth: its share of the multiplier's peak, and which bound binds."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilewright.core.errors import UnknownNameError, WorkloadError
from tilewright.core.records import Workload
from tilewright.native.calibration import Peaks
from tilewright.native.roofline import roofline
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
    bound = roofline(workload, peak, around)
    feedback = (
        f"{2e-12 * rate:.3f} TOPS, {rate / peak:.1%} of the tiles' measured peak of "
        f"{2e-12 * peak:.2f}; arrays of {bound.bytes_per_operation:.3g} bytes per operation, "
        f"which fit {bound.home} ({1e-9 * bound.bandwidth:.0f} GB/s measured).\n"
        f"{bound.in_words('products', latency_s)}; the second-level cache delivers "
        f"{1e-9 * around.l2_read_bytes_per_s:.0f} GB/s to tiles loaded from it."
    )
    numbers = {
        "tera_operations_per_s": 2e-12 * rate,
        "bytes_per_operation": bound.bytes_per_operation,
        "bound_ns": bound.least_s * 1e9,
    }
    return min(1.0, rate / peak), numbers, feedback
