"""Detects copies of the kernels that come with a target."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tilewright.core.errors import InputError
from tilewright.core.records import KernelLanguage

_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?!\w)(?!\s*\()")
"""A name that is neither called nor a member of something else."""


class Copies:
    """The kernels that come with a task, of which copies are refused.

    Args:
        baselines: the sources of these kernels, by name.
        language: the language of the kernels.
    """

    def __init__(self, baselines: Mapping[str, str], language: KernelLanguage) -> None:
        self._language = language
        self._names = {self._shape(source): name for name, source in baselines.items()}

    def refuse(self, source: str) -> None:
        """Raise `InputError` for a kernel that differs from one of them only in comments, layout
        and names.
        """
        name = self._names.get(self._shape(source)) if self._names else None
        if name is not None:
            raise InputError(
                f"this kernel is a copy of the target's baseline {name!r} and counts as this "
                "baseline: it was not evaluated and cost nothing. Give a kernel of your own."
            )

    def _shape(self, source: str) -> str:
        """The normal form with its names numbered in their order."""
        numbers: dict[str, str] = {}
        return _NAME.sub(
            lambda found: numbers.setdefault(found[0], f"_{len(numbers)}"),
            self._language.normal_form(source),
        )
