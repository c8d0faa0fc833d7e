"""What a latency is worth: its share of the multiplier's peak, and which bound binds."""

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
    """Multiply-adds that a correct kernel cannot do without, as far as this is known.

    A registered workload's are counted. A folder says itself how many it has: it is believed as
    far as a product of matrices of its arrays' sizes goes, which is the root of the product of the
    three largest sizes (Loomis and Whitney), so that a slip in a file makes no correct kernel
    impossible.
    """
    try:
        return parse_shape(workload.source, element).operations
    except (UnknownNameError, WorkloadError):
        sizes = sorted(math.prod(a.shape) for a in workload.arguments)
        return min(workload.operations, math.isqrt(math.prod(sizes[-3:])))


LOADED = "tile_load_bytes"
"""Name of the bytes that tile loads read in one call, among what is counted."""


def loads_in_words(workload: Workload, counts: Counts) -> str:
    """A clause: what tile loads read, for each operation and beside the arrays."""
    loaded = counts[LOADED]
    each = loaded / (2 * workload.operations)
    return (
        f"its tile loads read {loaded:,} bytes, {each:.3g} per operation and "
        f"{loaded / bytes_of(workload.arguments):.1f} times what the arrays hold"
    )


def described(
    workload: Workload, latency_s: float, peak: float, around: Peaks, counts: Counts
) -> tuple[float, Mapping[str, float], str]:
    """Utilisation 0..1, numbers, and feedback in words; `peak` are multiply-adds per second.

    Tile loads are a bound of this kernel, beside those of any kernel: they take at least their
    bytes at the first-level cache's rate.
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
            ", which is what binds this kernel." if loading_s > bound.least_s else "."
        )
    return min(1.0, rate / peak), numbers, feedback
