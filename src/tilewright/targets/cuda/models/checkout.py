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
            f"kernelbench:level{level}-{number} is a problem in a checkout of KernelBench. Set "
            f"{CHECKOUT} to the folder of the checkout, or give the problem's file."
        )
    folders = [Path(named) / part / f"level{level}" for part in (".", "KernelBench")]
    found = [path for folder in folders for path in sorted(folder.glob(f"{number}_*.py"))]
    if not found:
        raise WorkloadError(
            f"the folder {named}, which {CHECKOUT} names, has no level{level}/{number}_*.py. Give "
            "the folder of a checkout of KernelBench."
        )
    return found[0].resolve()
