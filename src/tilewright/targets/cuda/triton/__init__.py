"""The target `triton`: kernels of Triton, and a launcher that starts them.

A kernel's Python runs in a sandbox, where nothing says what is right: what its launcher launches is
compiled to machine code, interpreted on the CPU, and timed on a GPU without any Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.targets.cuda.triton.target import TritonTarget


def create_target() -> TritonTarget:
    """The entry point; the implementation is imported only now."""
    from tilewright.targets.cuda.triton.target import TritonTarget

    return TritonTarget()
