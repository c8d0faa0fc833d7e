"""The Gemmini targets, which simulate a systolic array that a Rocket core controls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.targets.gemmini.target import GemminiTarget

_FOLDER = Path(__file__).parent


def create_target() -> GemminiTarget:
    """The entry point of `gemmini`, int8 16x16, which imports the implementation."""
    from tilewright.targets.gemmini.target import GemminiTarget

    return GemminiTarget("gemmini", _FOLDER / "target.toml")


def create_fp32_target() -> GemminiTarget:
    """The entry point of `gemmini-fp32-4x4`."""
    from tilewright.targets.gemmini.target import GemminiTarget

    return GemminiTarget("gemmini-fp32-4x4", _FOLDER / "fp32-4x4.toml")
