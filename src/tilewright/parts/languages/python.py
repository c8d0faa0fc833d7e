"""Numbers in Python, and its normal form: the tokens with their indentation, without comments and
layout."""

from __future__ import annotations

import io
import keyword
import re
import tokenize
from collections.abc import Iterator, Sequence
from functools import lru_cache

KEYWORDS = frozenset(keyword.kwlist)
_UNSETTLED = re.compile(
    r"""[\r\0]                            # ends a line, or is not text
    |^[ \t\f]*\#.*?coding[:=]             # says how bytes are to be read
    """,
    re.VERBOSE | re.MULTILINE,
)
_UNSEEN = (tokenize.COMMENT, tokenize.NL)
# From Python 3.12 (for t-strings 3.14) on, strings with fields consist of several tokens. A field
# with "=" prints its own spaces.
_OPENING = tuple(getattr(tokenize, f"{kind}STRING_START", None) for kind in "FT")
_CLOSING = tuple(getattr(tokenize, f"{kind}STRING_END", None) for kind in "FT")
_WORD = (tokenize.NAME, tokenize.NUMBER)
_LONGEST_LINE = 2000
"""Maximum number of characters of a line, because Python 3.12 copies the whole line for every
token.
"""


@lru_cache(maxsize=256)  # cached, because the form of a parent is needed for each of its children
def normal_form(source: str) -> str:
    """The tokens of each logical line, separated by spaces and indented by one space per block.

    A source that is not valid Python, declares an encoding, or has a very long line is its own
    normal form.
    """
    text = source.replace("\r\n", "\n")
    lines = text.split("\n")
    if _UNSETTLED.search(text) or max(map(len, lines)) > _LONGEST_LINE:
        return source
    try:
        tokens = list(_tokens(text, lines))
    except (tokenize.TokenError, SyntaxError):
        return source
    depth, line, form = 0, list[str](), list[str]()
    for last, found in zip([None, *tokens], tokens, strict=False):
        if found.type == tokenize.ERRORTOKEN or (last is not None and _is_joined(last, found)):
            return source
        if found.type in (tokenize.INDENT, tokenize.DEDENT):
            depth += 1 if found.type == tokenize.INDENT else -1
        elif found.type == tokenize.NEWLINE:
            if not line:  # an empty continuation line
                return source
            form.append(" " * depth + " ".join(line))
            line = []
        elif found.type not in _UNSEEN:
            line.append(found.string)
    return "\n".join(form)


def _tokens(text: str, lines: Sequence[str]) -> Iterator[tokenize.TokenInfo]:
    """The tokens, in which a string with fields is a single token."""
    begun: list[tokenize.TokenInfo] = []
    for found in tokenize.generate_tokens(io.StringIO(text).readline):
        if found.type in _OPENING:
            begun.append(found)
        elif found.type in _CLOSING:
            first = begun.pop()
            if not begun:
                whole = _between(lines, first.start, found.end)
                yield tokenize.TokenInfo(tokenize.STRING, whole, first.start, found.end, first.line)
        elif not begun:
            yield found


def _between(lines: Sequence[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    found = list(lines[start[0] - 1 : end[0]])
    found[-1] = found[-1][: end[1]]
    found[0] = found[0][start[1] :]
    return "\n".join(found)


def _is_joined(last: tokenize.TokenInfo, found: tokenize.TokenInfo) -> bool:
    """Whether a word follows another token without a space, which Python versions tokenise
    differently.
    """
    words = last.type in _WORD and found.type in (*_WORD, tokenize.STRING)
    return words and last.end == found.start


def literal(value: object) -> str:
    """The expression of a number, also of one that is infinite or not a number."""
    text = repr(value)
    return f'float("{text}")' if text in ("inf", "-inf", "nan") else text
