"""AWS Trainium: NKI kernels, which an interpreter checks and a latency model of the chip times."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.targets.trainium.target import TrainiumTarget


def create_target() -> TrainiumTarget:
    """The entry point of trn1, which imports the implementation."""
    from tilewright.targets.trainium.target import TrainiumTarget

    return TrainiumTarget("trainium", "trn1")


def create_trn2_target() -> TrainiumTarget:
    """The entry point of trn2."""
    from tilewright.targets.trainium.target import TrainiumTarget

    return TrainiumTarget("trainium2", "trn2")
