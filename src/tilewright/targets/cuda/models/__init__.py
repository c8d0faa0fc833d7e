"""The target `kernelbench`: answers in KernelBench's form, Python that defines `ModelNew`.

A kernel's Python is read, never run: the CUDA source that it hands to `load_inline` and what its
`forward` calls become a kernel of the target `cuda`, which is compiled, checked and timed as such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.targets.cuda.models.target import KernelBenchTarget


def create_target() -> KernelBenchTarget:
    """The entry point; the implementation is imported only now."""
    from tilewright.targets.cuda.models.target import KernelBenchTarget

    return KernelBenchTarget()
