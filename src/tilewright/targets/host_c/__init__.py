"""The target `host-c`: C kernels on one core of the machine at hand, measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.targets.host_c.target import HostTarget


def create_target() -> HostTarget:
    """The entry point; the implementation is imported only now."""
    from tilewright.targets.host_c.target import HostTarget

    return HostTarget()
