"""The target's own setting: the architecture that kernels are compiled for."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core.errors import UnknownNameError
from tilewright.targets.cuda.occupancy import Architecture, architectures

DEFAULT = "sm_90"


def names() -> tuple[str, ...]:
    """Architectures that may be chosen, the default first."""
    return (DEFAULT, *(name for name in architectures() if name != DEFAULT))


def chosen_architecture(settings: Mapping[str, object], gpu: str | None = None) -> Architecture:
    """The one that `arch` in `target_settings` names, else that of the `gpu` of this machine.

    `UnknownNameError` for one that is not described.
    """
    own = settings.get("target_settings", {})
    assert isinstance(own, Mapping)
    name = str(own.get("arch", gpu if gpu in architectures() else DEFAULT))
    if name not in architectures():
        raise UnknownNameError("arch", name, architectures())
    return architectures()[name]
