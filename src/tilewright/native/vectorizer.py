"""Reads from GCC's messages why loops were not vectorised."""

from __future__ import annotations

import re
from dataclasses import dataclass

MESSAGES_FILE = "vectorizer.txt"
FLAGS = (f"-fdump-tree-vect-missed={MESSAGES_FILE}",)
"""Flags of GCC for these messages, which do not change the code. `-fopt-info-vec-missed` would
print only the reason of the last of several attempts.
"""
MAX_BYTES = 16 << 20
"""Maximum size of the messages that are read."""

_MESSAGE = re.compile(r"^\S*?([\w.-]+):(\d+):(\d+): missed:\s+(.*)$", re.MULTILINE)
_GIVEN_UP = "couldn't vectorize loop"
_ENDS_ATTEMPT = ("bad ", _GIVEN_UP)
_NAMED = "not vectorized: "
_STATEMENT = re.compile(r"(?::| stmt:| between| \().*$")
"""The compiler's internal names for the statement that a message is about."""
_SAYS_LITTLE = ("relevant stmt not supported", "unsupported use in stmt", "no grouped stores")
_REMARKS = (
    "step unknown", "Unknown misalignment", "vector alignment may not be reachable",
    "reduc op not supported", "not falling back", "no array mode", "Build SLP failed",
)  # fmt: skip
"""Messages that do not give a reason."""
_IN_WORDS = {
    "relevant phi not supported": "each iteration needs a value that the previous one computed, in "
    "a form that gcc cannot divide among lanes, such as a float sum in a fixed order",
}
"""Messages in the compiler's own terms, in words that a programmer understands."""


@dataclass(frozen=True, slots=True)
class _Message:
    line: int
    column: int
    text: str


def missed_reasons(messages: str, file: str) -> dict[int, str]:
    """The reason for each loop of `file` that was not vectorised, by line, if the messages give
    one.

    If there were several attempts with different vector widths, the reason is that of the first
    one. `messages` is the output that `FLAGS` request.
    """
    reasons: dict[int, str] = {}
    since: list[_Message] = []
    for found in _MESSAGE.finditer(messages[:MAX_BYTES]):
        if found[1] != file:
            continue
        message = _Message(int(found[2]), int(found[3]), found[4].strip())
        if message.text != _GIVEN_UP:
            since.append(message)
            continue
        reason = _reason(_first_attempt(since, message), message)
        if reason:
            reasons.setdefault(message.line, reason)
        since = []
    return reasons


def _first_attempt(since: list[_Message], loop: _Message) -> list[_Message]:
    """The compiler's notes on this loop up to the first failed attempt. Notes before the first
    message on the loop belong to loops that were vectorised.
    """
    place = loop.line, loop.column
    begins = next((n for n, m in enumerate(since) if (m.line, m.column) == place), 0)
    attempt = []
    for message in since[begins:]:
        if message.text.startswith(_ENDS_ATTEMPT):
            break
        attempt.append(message)
    return attempt


def _reason(attempt: list[_Message], loop: _Message) -> str:
    telling = [m for m in attempt if not m.text.startswith(_REMARKS)]
    if not telling:
        return ""
    last = telling[-1]
    said = last.text.removeprefix(_NAMED)
    if said.startswith(_SAYS_LITTLE) and len(telling) > 1:
        said = telling[-2].text.removeprefix(_NAMED)
    said = _STATEMENT.sub("", said).strip().rstrip(".")
    return _IN_WORDS.get(said, said) + (f" (line {last.line})" if last.line != loop.line else "")
