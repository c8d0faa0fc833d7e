"""The target `triton`: Triton kernels, and a launcher that starts them.

A kernel's Python runs in a sandbox that contains no expected results. The kernels that its launcher
launches are compiled to machine code, interpreted on the CPU, and timed on a GPU without any
Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.targets.cuda.triton.target import TritonTarget


def create_target() -> TritonTarget:
    """The entry point, which imports the implementation."""
    from tilewright.targets.cuda.triton.target import TritonTarget

    return TritonTarget()
