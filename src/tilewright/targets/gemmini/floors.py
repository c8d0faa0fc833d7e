"""Lower bounds on the cycles of any correct kernel. A faster result is a wrong measurement.

The bounds of `feedback` only guide proposers. Results below the bounds of this module are refused,
so each of them must hold for every correct kernel:

- core: the core issues at most one instruction per cycle; the executed instructions are counted.
- array: each element of the array computes at most one product per cycle; the executed products are
  counted.
- work: no algorithm can replace products of an exact int8 matrix product or convolution by sums of
  operands, because such sums do not fit the array's int8. The core can multiply once per cycle in
  addition to the array.
- outputs: every byte of a poisoned output must be written, either over the DMA's bus or by the
  core, which writes eight bytes per cycle. There is no such bound for inputs, because a kernel need
  not read inputs that have no influence on its outputs.
"""

from __future__ import annotations

import math
from pathlib import Path

from tilewright.core.records import Measured, Workload
from tilewright.parts.inputs import bytes_of
from tilewright.targets.gemmini.instance import Instance

_CORE_BYTES = 8
_CORE_PRODUCTS = 1


def highest_floor(instance: Instance, workload: Workload, measured: Measured) -> tuple[float, str]:
    """The highest floor in cycles, and its name."""
    if not {"instructions", "macs"} <= set(measured.details):  # not measured
        return math.inf, "a result without counts of its instructions and products"
    elements = instance.dim**2
    floors = {
        "the core, at one instruction per cycle,": measured.details["instructions"],
        "the array, at one product per element and cycle,": measured.details["macs"] / elements,
        "writing the outputs": _output_bytes(workload)
        / (instance.config["dma_bus_bytes"] + _CORE_BYTES),
    }
    declared_by_user = Path(workload.source).is_absolute()
    if instance.is_integer and not declared_by_user:
        floors["the task's products on array and core"] = workload.operations / (
            elements + _CORE_PRODUCTS
        )
    bound = max(floors, key=lambda name: floors[name])
    return floors[bound], bound


def _output_bytes(workload: Workload) -> int:
    return bytes_of(a for a in workload.arguments if a.role == "output")
