"""Converts plans, which models write in Markdown, to HTML, and shortens them to the first
sentence.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

LONGEST = 240
"""Maximum number of characters of a first sentence; a longer one is shortened."""
_MARKERS = re.compile(r"\*\*|__|```\w*|^\s*(?:#+|[-*+]|\d+[.)])\s+", re.MULTILINE)
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z(])|\n\s*\n")


@cache
def _parser() -> MarkdownIt:
    """A parser for text, lists, emphasis and code only, because the text of models is not
    trusted.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False})
    return parser.disable(["link", "image", "autolink", "html_inline", "html_block", "reference"])


def as_html(text: str) -> str:
    """The text as HTML, in which all markup of the text itself is escaped."""
    return str(_parser().render(text))


def first_sentence(text: str) -> str:
    """The first sentence on one line without Markdown's marks, except those of code, which may
    look like a word (`right`); "..." at its end if it was shortened.
    """
    plain = _MARKERS.sub("", text).strip()
    sentence = " ".join(_END.split(plain, maxsplit=1)[0].split())
    if len(sentence) <= LONGEST:
        return sentence
    return f"{sentence[:LONGEST].rsplit(' ', 1)[0]} ..."
