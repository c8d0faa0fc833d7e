"""Hints to the compiler to unroll a loop: `#pragma GCC unroll 4`.

A pragma is a line and not a part of the loop after it, so the parser does not understand a loop
whose only statement is such a loop. It understands attributes of loops. Both forms have the same
number of lines.
"""

from __future__ import annotations

import re

_PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+GCC[ \t]+unroll[ \t]+(\d+)\b.*$", re.MULTILINE)
_ATTRIBUTE = re.compile(r"\[\[__unroll__\((\d+)\)\]\]")


def as_attributes(source: str) -> str:
    """The source with an attribute in place of each hint."""
    return _PRAGMA.sub(r"[[__unroll__(\1)]]", source)


def as_pragmas(text: str) -> str:
    """The reverse of `as_attributes`, for a part of its result that begins at any statement."""
    return _ATTRIBUTE.sub(r"#pragma GCC unroll \1", text)


def times(attribute: str) -> int:
    """How often an attribute asks for a loop's body to be repeated; 0 if it is another one."""
    found = _ATTRIBUTE.fullmatch(attribute)
    return int(found[1]) if found else 0
