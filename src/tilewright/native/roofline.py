"""The minimum times for a kernel's arithmetic and for moving its arrays on this machine, and the
larger of the two.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.core.records import Workload
from tilewright.native.calibration import Peaks
from tilewright.native.machine import processor
from tilewright.parts.inputs import bytes_of


@dataclass(frozen=True, slots=True)
class Roofline:
    """Seconds for the multiply-adds at the peak rate, and for moving every array once from its
    memory level.

    The memory level is the nearest one into which all arrays (`moved_bytes`) fit, and is read at
    `bandwidth` bytes per second. `bytes_per_operation` counts a multiply-add as two operations.
    """

    computing_s: float
    moving_s: float
    moved_bytes: int
    bytes_per_operation: float
    home: str
    bandwidth: float

    @property
    def least_s(self) -> float:
        """The longer of the two."""
        return max(self.computing_s, self.moving_s)

    def in_words(self, products: str, latency_s: float) -> str:
        """A sentence on the bound that limits a kernel, compared with its latency; `products` names
        the arithmetic.
        """
        moving = f"moving every array once from {self.home}"
        binds = products if self.computing_s >= self.moving_s else moving
        return (
            f"The kernel takes {latency_s / self.least_s:.1f} times its bound of "
            f"{self.least_s * 1e9:,.0f} ns, which is set by {binds} ({products} take at least "
            f"{self.computing_s * 1e9:,.0f} ns, the arrays {self.moving_s * 1e9:,.0f} ns)"
        )


def roofline(
    workload: Workload, products_per_s: float, memories: Peaks, threads: int = 1
) -> Roofline:
    """The roofline of a workload on `threads` cores; `products_per_s` is the peak rate of all
    threads together.
    """
    moved = bytes_of(workload.arguments)
    core = processor()
    homes = (
        (threads * core.l2_bytes, "the second-level cache", memories.l2_read_bytes_per_s),
        (core.l3_bytes, "the third-level cache", memories.l3_read_bytes_per_s),
        (moved, "memory", memories.memory_read_bytes_per_s),
    )
    _, home, bandwidth = next(place for place in homes if moved <= place[0])
    return Roofline(
        computing_s=workload.operations / products_per_s,
        moving_s=moved / bandwidth,
        moved_bytes=moved,
        bytes_per_operation=moved / (2 * workload.operations),
        home=home,
        bandwidth=bandwidth,
    )
