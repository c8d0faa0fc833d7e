"""The largest size that the name of a workload may contain."""

from __future__ import annotations

import re

from tilewright.core.errors import WorkloadError
from tilewright.core.text import shortened

_DIGITS = 9
SIZE = rf"([0-9]{{1,{_DIGITS}}})"
"""A regular expression for a size in a name, as one group."""


def check_size_limit(spec: str) -> None:
    """Raise `WorkloadError` if a number in the name `spec` has more digits than `SIZE` accepts."""
    found = re.search(rf"[0-9]{{{_DIGITS + 1},}}", spec)
    if found is not None:
        raise WorkloadError(
            f"workload {shortened(spec)} has the size {shortened(found[0])}: no size may be larger "
            f"than {10**_DIGITS - 1}, so choose smaller sizes."
        )
