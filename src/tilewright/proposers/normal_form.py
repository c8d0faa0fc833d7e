"""A normal form of C that needs to know nothing of the target."""

from __future__ import annotations

import re
from functools import lru_cache

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(r"\w+|[^\w\s]")


@lru_cache(maxsize=256)  # one parent's form is asked for with each of its children
def normal_form(source: str) -> str:
    """The source's tokens without comments: equal for sources that differ in layout only."""
    return " ".join(_TOKEN.findall(_COMMENT.sub(" ", source)))
