"""What is kept from agents that a search starts: the kernels that they are compared with, and the
files of the project."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

_TUNED = "*tuned*"
"""Names of files and folders in which targets keep kernels that were tuned by hand."""


def kept_back(store: Path) -> tuple[Path, ...]:
    """The tuned kernels of all targets that come along, and the folder of the project's database.

    Kernels of targets that other packages bring are not known here.
    """
    package = find_spec("tilewright")
    folders = package.submodule_search_locations if package is not None else None
    found = {path for folder in folders or () for path in Path(folder, "targets").rglob(_TUNED)}
    outermost = [path for path in found if not found & set(path.parents)]
    return (*sorted(outermost), store)
