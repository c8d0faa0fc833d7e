"""The target's own setting: the architecture that kernels are compiled for."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core.errors import UnknownNameError
from tilewright.targets.cuda.occupancy import Architecture, architectures

DEFAULT = "sm_90"


def names() -> tuple[str, ...]:
    """Architectures that may be chosen, the default first."""
    return (DEFAULT, *(name for name in architectures() if name != DEFAULT))


def chosen_architecture(settings: Mapping[str, object]) -> Architecture:
    """The one that `arch` in `target_settings` names; `UnknownNameError` for any other."""
    own = settings.get("target_settings", {})
    assert isinstance(own, Mapping)
    name = str(own.get("arch", DEFAULT))
    if name not in architectures():
        raise UnknownNameError("arch", name, architectures())
    return architectures()[name]
