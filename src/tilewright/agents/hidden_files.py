"""Files that are hidden from agents: the kernels with which their kernels are compared, and the
files of the project.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

_TUNED = "*tuned*"
"""Names of files and folders in which targets keep kernels that were tuned by hand."""


def hidden_from_agents(store: Path) -> tuple[Path, ...]:
    """The tuned kernels of all built-in targets, and the folder of the project's database.

    Kernels of targets from other packages are not included.
    """
    package = find_spec("tilewright")
    folders = package.submodule_search_locations if package is not None else None
    found = {path for folder in folders or () for path in Path(folder, "targets").rglob(_TUNED)}
    outermost = [path for path in found if not found & set(path.parents)]
    return (*sorted(outermost), store)
