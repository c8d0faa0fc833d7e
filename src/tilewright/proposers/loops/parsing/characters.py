"""Reads the characters of character constants and strings, such as `'\\n'` and `"abc"`."""

from __future__ import annotations

import re

from tree_sitter import Node

from tilewright.proposers.c.syntax import text_of
from tilewright.proposers.loops.parsing.syntax import UnsupportedError

_PART = re.compile(r"\\x([0-9a-fA-F]+)|\\([0-7]{1,3})|\\(.)|([^\\])", re.DOTALL)
_ESCAPES = dict(zip("abfnrtv\\'\"?", b"\a\b\f\n\r\t\v\\'\"?", strict=True))
_LARGEST = 127
"""Larger characters are negative numbers on some machines, and positive ones on others."""


def characters(node: Node) -> list[int]:
    """The characters between the quotes of a literal. Raises `UnsupportedError`."""
    text = text_of(node)
    found: list[int] = []
    for part in _PART.finditer(text[1:-1]):
        hexadecimal, octal, escaped, plain = part.groups()
        if hexadecimal or octal:
            found.append(int(hexadecimal or octal, 16 if hexadecimal else 8))
        else:
            found.append(ord(plain) if plain else _ESCAPES.get(escaped, _LARGEST + 1))
    if text[0] not in "'\"" or any(c > _LARGEST for c in found):
        raise UnsupportedError(node, f"{text!r} is not a character or a string of ASCII characters")
    return found


def character(node: Node) -> int:
    """The number that a character constant stands for. Raises `UnsupportedError`."""
    found = characters(node)
    if len(found) != 1:
        raise UnsupportedError(node, f"{text_of(node)!r} is not a character")
    return found[0]
