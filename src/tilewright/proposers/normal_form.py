"""A normal form of C that needs to know nothing of the target."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(r"\w+|[^\w\s]")


def normal_form(source: str) -> str:
    """The source's tokens without comments: equal for sources that differ in layout only."""
    return " ".join(_TOKEN.findall(_COMMENT.sub(" ", source)))
