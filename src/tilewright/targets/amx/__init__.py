"""The targets `amx-int8` and `amx-bf16`: Intel's tile instructions on one core of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.targets.amx.target import AmxTarget


def create_int8_target() -> AmxTarget:
    """The entry point of `amx-int8`, which imports the implementation."""
    from tilewright.targets.amx.elements import INT8
    from tilewright.targets.amx.target import AmxTarget

    return AmxTarget(INT8)


def create_bf16_target() -> AmxTarget:
    """The entry point of `amx-bf16`."""
    from tilewright.targets.amx.elements import BF16
    from tilewright.targets.amx.target import AmxTarget

    return AmxTarget(BF16)
