"""The Gemmini target: int8 16x16 systolic array behind a Rocket core, on an embedded simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.targets.gemmini.target import GemminiTarget


def create_target() -> GemminiTarget:
    """The entry point; the implementation is imported only when it is called."""
    from tilewright.targets.gemmini.target import GemminiTarget

    return GemminiTarget()
