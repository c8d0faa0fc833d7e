"""Cleans text from kernels, models and compilers so that it can be stored, parsed and printed
safely.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_ESCAPE_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]"  # colours, cursor movements
    r"|[\]PX^_][^\x07\x1b\n]*+(?:\x07|\x1b\\)"  # window titles, links, the clipboard
    r"|[ -/]*+[0-~])"
    r"|\x9b[0-?]*+[ -/]*+[@-~]"
)
_LINE_END = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_NOT_TEXT = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x9f"  # control characters
    r"\u200e\u200f\u202a-\u202e\u2066-\u2069"  # these reorder the adjacent text on a screen
    r"\ud800-\udfff]"  # halves of pairs: no encoding can write them
)


def plain_text(text: str) -> str:
    """The text, with line feeds as line ends, and only with characters that any terminal can show.

    Terminal escape sequences are removed. Other control characters except tabs, characters that
    reorder text, and characters that cannot be encoded are replaced by a replacement character. The
    time is linear in the length.
    """
    text = _LINE_END.sub("\n", _ESCAPE_SEQUENCE.sub("", text))
    return _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)


def listed(parts: Sequence[str], last: str = "and") -> str:
    """Parts of a sentence as "a, b and c", with this word before the last one."""
    return f" {last} ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


MOST_SHOWN = 100
"""Maximum number of characters of a value in a message."""


def counted(count: int, what: str) -> str:
    """A number of things in words, such as "1 call" or "2 calls"."""
    return f"{count} {what}{'s' * (count != 1)}"


def shortened(value: object) -> str:
    """A value from a file or a user as a message shows it: like `repr`, but of bounded length."""
    if isinstance(value, str):
        value = value[: MOST_SHOWN + 1]
    if isinstance(value, int) and abs(value) >= 10**MOST_SHOWN:
        return f"a whole number of more than {MOST_SHOWN} digits"
    shown = repr(value)
    return shown if len(shown) <= MOST_SHOWN + 2 else shown[:MOST_SHOWN] + "..."
