"""The target's own settings: the architecture, and the lowest accepted precision."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core.errors import UnknownNameError
from tilewright.targets.cuda.occupancy import Architecture, architectures

DEFAULT = "sm_90"
PRECISIONS = {"float32": "", "tf32": "tf32-like", "bf16": "bf16-like"}
"""Precision classes by the names of settings, in order from the finest."""


def names() -> tuple[str, ...]:
    """The architectures that can be chosen; the default is first."""
    return (DEFAULT, *(name for name in architectures() if name != DEFAULT))


def chosen_architecture(settings: Mapping[str, object], gpu: str | None = None) -> Architecture:
    """The architecture that `arch` in `target_settings` names, otherwise that of this machine's
    `gpu`.

    `UnknownNameError` for an architecture that is not described.
    """
    own = settings.get("target_settings", {})
    assert isinstance(own, Mapping)
    name = str(own.get("arch", gpu if gpu in architectures() else DEFAULT))
    if name not in architectures():
        raise UnknownNameError("arch", name, architectures())
    return architectures()[name]


def lowest_precision(settings: Mapping[str, object]) -> str:
    """The class that `precision` in `target_settings` names; empty for that of the outputs.

    `UnknownNameError` for another name.
    """
    own = settings.get("target_settings", {})
    assert isinstance(own, Mapping)
    name = str(own.get("precision", "float32"))
    if name not in PRECISIONS:
        raise UnknownNameError("precision", name, PRECISIONS)
    return PRECISIONS[name]
