"""The target `host-c`, for C kernels that are measured on one core of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.targets.host_c.target import HostTarget


def create_target() -> HostTarget:
    """The entry point, which imports the implementation."""
    from tilewright.targets.host_c.target import HostTarget

    return HostTarget()
