"""Problems in a checkout of KernelBench. An environment variable names its folder; it is not
copied."""

from __future__ import annotations

import os
from pathlib import Path

from tilewright.core.errors import WorkloadError

CHECKOUT = "TILEWRIGHT_KERNELBENCH"
"""The variable that names the folder of a checkout, or the folder in it that contains `level1`."""


def file_of(level: int, number: int) -> Path:
    """The file of a problem; `WorkloadError` if there is none."""
    named = os.environ.get(CHECKOUT)
    if not named:
        raise WorkloadError(
            f"kernelbench:level{level}-{number} lies in a checkout of KernelBench. Set {CHECKOUT} "
            "to its folder, or name the problem's file itself."
        )
    folders = [Path(named) / part / f"level{level}" for part in (".", "KernelBench")]
    found = [path for folder in folders for path in sorted(folder.glob(f"{number}_*.py"))]
    if not found:
        raise WorkloadError(
            f"the folder {named}, which {CHECKOUT} names, has no level{level}/{number}_*.py. Give "
            "the folder of a checkout of KernelBench."
        )
    return found[0].resolve()
