"""Finds targets and proposers through entry points; built-ins come in by the same door."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import cast

from tilewright.core.errors import UnknownNameError
from tilewright.core.roles import Proposer, Target


def target_names() -> list[str]:
    """Names of all installed targets."""
    return sorted(e.name for e in entry_points(group="tilewright.targets"))


@cache
def load_target(name: str) -> Target:
    """The target of this name; its package is imported only now."""
    for entry in entry_points(group="tilewright.targets"):
        if entry.name == name:
            return cast(Target, entry.load()())
    raise UnknownNameError("target", name, target_names())


def load_proposer(name: str) -> Proposer:
    """A new proposer of this name; its package is imported only now."""
    found = {e.name: e for e in entry_points(group="tilewright.proposers")}
    if name not in found:
        raise UnknownNameError("proposer", name, found)
    return cast(Proposer, found[name].load()())
