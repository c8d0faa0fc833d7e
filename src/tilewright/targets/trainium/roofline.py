"""The roofline of a workload: the bytes that must be moved, and the products of its definition."""

from __future__ import annotations

from pathlib import Path

from tilewright.core.records import Workload
from tilewright.parts.inputs import bytes_of
from tilewright.targets.trainium.machine import Machine

PRODUCTS = ("gemm", "conv2d", "attention", "sd_attention", "causal_attention",
            "multihead_attention", "attention_tile")  # fmt: skip
"""Kinds whose operations only the PE array can do in the time of the transfers. The operations of a
folder are multiply-accumulates by definition."""
_SKIPPED_INPUTS = {"attention_tile"}
"""Kinds of which a kernel may omit the masked part."""


def roofline_ns(workload: Workload, machine: Machine) -> tuple[float, str]:
    """Nanoseconds of the larger bound, without the launch, and the name of this bound."""
    kind = workload.source.partition("-")[0]
    counted = [a for a in workload.arguments if a.is_written or kind not in _SKIPPED_INPUTS]
    if Path(workload.source).is_absolute() and not workload.operations:
        return _copying_ns(workload, machine), "copying every argument inside HBM"
    moved = bytes_of(counted) / machine.dma.peak_bytes_per_ns
    multiplies = kind in PRODUCTS or Path(workload.source).is_absolute()
    products = workload.operations / machine.products_per_ns if multiplies else 0.0
    if products > moved:
        return products, "products of bfloat16 on PE"
    return moved, "moving every argument once"


def _copying_ns(workload: Workload, machine: Machine) -> float:
    """Nanoseconds to move all arguments if no engine needs them.

    A transfer from HBM to HBM moves a byte of an input and a byte of an output at once, but HBM
    reads the one and writes the other.
    """
    written = bytes_of(a for a in workload.arguments if a.is_written)
    total = bytes_of(workload.arguments)
    moved = max(written, total - written) / machine.dma.peak_bytes_per_ns
    return max(moved, total / machine.dma.hbm_bytes_per_ns)


_FEWER_PRODUCTS = {"conv2d"}
"""With Winograd's algorithm, a convolution needs fewer products than its definition."""


def floor_ns(workload: Workload, machine: Machine) -> tuple[float, str]:
    """Nanoseconds that no correct kernel can beat, including the launch, and the reason.

    For a folder, only the outputs are certain, because its reference need not use all inputs.
    """
    kind = workload.source.partition("-")[0]
    if Path(workload.source).is_absolute() or kind in _FEWER_PRODUCTS:
        stored = bytes_of(a for a in workload.arguments if a.is_written)
        return machine.launch + stored / machine.dma.peak_bytes_per_ns, "storing the outputs"
    least, bound = roofline_ns(workload, machine)
    return machine.launch + least, bound
