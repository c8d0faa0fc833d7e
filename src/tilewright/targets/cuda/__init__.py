"""The target `cuda`: CUDA C++ kernels for NVIDIA GPUs, compiled and checked on any machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.targets.cuda.target import CudaTarget


def create_target() -> CudaTarget:
    """The entry point, which imports the implementation."""
    from tilewright.targets.cuda.target import CudaTarget

    return CudaTarget()
