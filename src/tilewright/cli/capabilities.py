"""Finds out whether this machine can check and time kernels of a target."""

from __future__ import annotations

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.roles import ProvidesFolderTemplate, Target, Untimed


def uncheckable(target: Target) -> str | None:
    """What is missing to build and check kernels on this machine, or None."""
    try:
        target.versions()
    except ToolchainMissingError as error:
        return str(error)
    return None


def untimed(target: Target) -> str | None:
    """Why this machine can check kernels of the target but not search for faster ones, or None."""
    if not isinstance(target, ProvidesFolderTemplate):
        return None
    task = target.open(target.template().workload, {})
    return task.untimed if isinstance(task, Untimed) else None
