"""New names for loops and tiles."""

from __future__ import annotations

import re

from tilewright.proposers.nki.ir import Kernel


class Names:
    """The names in a kernel, and new ones."""

    def __init__(self, kernel: Kernel) -> None:
        self._used = {*kernel.tensors(), *kernel.trips(), "nl", "nisa", "nki"}
        self._used.update(re.findall(r"\w+", kernel.head))

    def fresh(self, name: str) -> str:
        """An unused name similar to this one."""
        stem = re.sub(r"_\d+$", "", name)
        made, number = stem, 1
        while made in self._used:
            number += 1
            made = f"{stem}_{number}"
        self._used.add(made)
        return made
