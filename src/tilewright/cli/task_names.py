"""Names of tasks as a user reads them."""

from __future__ import annotations

from pathlib import Path

_OF_FUNCTIONS = ".tilewright/tasks/"
"""The folder, in the project folder, of tasks that were given to the Python API as functions."""


def shown_task(task: str, base: Path | None = None) -> str:
    """The name of a workload, or the path of a folder or file, which is relative if it lies in
    `base`, by default the current folder. A task that was given to the Python API as functions is
    named without the folder of such tasks.
    """
    return task.removeprefix(f"{(base or Path()).resolve()}/").removeprefix(_OF_FUNCTIONS)
