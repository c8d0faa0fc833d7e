"""Gives each call of a function a copy of the function's own, so that conditions are recorded for
each call separately.

If a function is called with input values and also with known values, its conditions may have both
results because of the known values. In copies, the results for input values are told apart from
those for known values. A function is copied if it contains a condition or value that is recorded,
or calls such a function, and only if its code refers to no label of another function. Functions
that call themselves, and calls of computed addresses, are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.native.conditions.listing import Listing
from tilewright.parts.machine_code.post_dominance import TooLargeError

MOST_LINES = 100_000
"""Maximum number of lines of a listing with copies."""
_BEGINS = re.compile(r"\s*\.type\s+([\w.$]+),\s*@function")
_CALL = re.compile(r"\s*(?:callq?|j[a-z]+)\s+([A-Za-z_][\w.$]*)(?:@PLT)?\s*(?:#.*)?$")
_LABEL = re.compile(r"(\.L[\w.$]*):")
_NAMED = re.compile(r"\.L[\w.$]*")
_VIEW = re.compile(r"(\s*\.loc\b.*?)\s+view\s.*")
_ENTRY = "kernel"


@dataclass(slots=True, eq=False)
class _Part:
    """Lines of a listing: those of the function `name`, or lines between functions for no name."""

    name: str
    lines: list[str]

    @property
    def labels(self) -> set[str]:
        """The local labels that are defined here."""
        return {found[1] for line in self.lines if (found := _LABEL.match(line))}

    def calls(self) -> Iterator[tuple[int, re.Match[str]]]:
        """The lines that call a named function, or jump to one, with its name as group 1."""
        for at, line in enumerate(self.lines):
            found = _CALL.match(line)
            if found and self.name:
                yield at, found


def with_own_copies(listing: Listing, examined: Collection[str]) -> str | None:
    """The text of a listing in which no two calls share a function of `examined`; None if no two
    calls do.

    Raises `TooLargeError` if the copies take too many lines.
    """
    parts = _parts(listing.lines)
    functions = {part.name: part for part in parts if part.name}
    called = {
        name: {found[1] for _, found in part.calls() if found[1] in functions}
        for name, part in functions.items()
    }
    reached = {name: _reached(name, called) for name in functions}
    total, copied = len(listing.lines), False
    for name in _callers_first(reached):
        part = functions[name]
        leads = name in examined or not reached[name].isdisjoint(examined)
        if not leads or name in reached[name] or not _is_closed(part, parts):
            continue
        sites = [(one, at) for one in parts for at, found in one.calls() if found[1] == name]
        for number, (caller, at) in enumerate(sites[1:], 1):
            total += len(part.lines)
            if total > MOST_LINES:
                raise TooLargeError
            copy = _copy(part, f"{name}.call{number}")
            parts.insert(parts.index(part) + 1, copy)
            line = caller.lines[at]
            found = _CALL.match(line)
            assert found is not None
            caller.lines[at] = f"{line[: found.start(1)]}{copy.name}{line[found.end(1) :]}"
            copied = True
    return "\n".join(line for part in parts for line in part.lines) + "\n" if copied else None


def _parts(lines: Sequence[str]) -> list[_Part]:
    parts = [_Part("", [])]
    for line in lines:
        begins = _BEGINS.match(line)
        if begins:
            parts.append(_Part(begins[1], []))
        parts[-1].lines.append(line)
        name = parts[-1].name
        if name and line.strip().startswith((f".size\t{name},", f".size {name},")):
            parts.append(_Part("", []))
    return parts


def _reached(name: str, called: Mapping[str, Collection[str]]) -> set[str]:
    """The functions that a function calls, directly or through others."""
    found: set[str] = set()
    open_ = list(called[name])
    while open_:
        one = open_.pop()
        if one not in found:
            found.add(one)
            open_.extend(called[one])
    return found


def _callers_first(reached: Mapping[str, Collection[str]]) -> list[str]:
    """All functions but the kernel, each one after those that call it."""
    return sorted((name for name in reached if name != _ENTRY), key=lambda n: -len(reached[n]))


def _is_closed(part: _Part, parts: Sequence[_Part]) -> bool:
    """Whether no function refers to a label of another one here, and the function has no data."""
    own = part.labels
    for other in parts:
        if other.name and other is not part:
            others = other.labels
            if any(name in others for line in part.lines for name in _NAMED.findall(line)):
                return False
            if any(name in own for line in other.lines for name in _NAMED.findall(line)):
                return False
    return not any(line.lstrip().startswith((".section", ".data", ".bss")) for line in part.lines)


def _copy(part: _Part, name: str) -> _Part:
    """A copy of a function with other labels and another name."""
    own, ending = part.labels, name.removeprefix(part.name)
    word = re.compile(rf"(?<![\w.$]){re.escape(part.name)}(?![\w.$])")

    def renamed(found: re.Match[str]) -> str:
        return f"{found[0]}{ending}" if found[0] in own else found[0]

    lines = []
    for line in part.lines:
        if line.lstrip().startswith((".file", ".globl", ".weak", ".hidden")):
            continue  # they stay with the function itself
        text = _NAMED.sub(renamed, _VIEW.sub(r"\1", line))
        lines.append(word.sub(name, text))
    return _Part(name, lines)
