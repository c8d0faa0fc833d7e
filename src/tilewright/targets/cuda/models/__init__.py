"""The target `kernelbench`: answers in KernelBench's form, Python that defines `ModelNew`.

A kernel's Python is parsed and never run. The CUDA source that it passes to `load_inline`, and the
calls in `forward`, are converted to a kernel of the target `cuda`, which is compiled, checked and
timed like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.targets.cuda.models.target import KernelBenchTarget


def create_target() -> KernelBenchTarget:
    """The entry point, which imports the implementation."""
    from tilewright.targets.cuda.models.target import KernelBenchTarget

    return KernelBenchTarget()
