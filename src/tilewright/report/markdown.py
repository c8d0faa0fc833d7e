"""Plans of models, which write Markdown: as HTML, and their first sentence alone."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

LONGEST = 240
"""Characters of a first sentence; one without an end in sight is cut."""
_MARKERS = re.compile(r"\*\*|__|`|^\s*(?:#+|[-*+]|\d+[.)])\s+", re.MULTILINE)
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z(])|\n\s*\n")


@cache
def _parser() -> MarkdownIt:
    """Text, lists, emphasis and code only: what models write is not trusted."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False})
    return parser.disable(["link", "image", "autolink", "html_inline", "html_block", "reference"])


def as_html(text: str) -> str:
    """The text as HTML, in which everything foreign is escaped."""
    return str(_parser().render(text))


def first_sentence(text: str) -> str:
    """The first sentence without Markdown's marks, on one line; "..." where it had to be cut."""
    plain = _MARKERS.sub("", text).strip()
    sentence = " ".join(_END.split(plain, maxsplit=1)[0].split())
    if len(sentence) <= LONGEST:
        return sentence
    return f"{sentence[:LONGEST].rsplit(' ', 1)[0]} ..."
