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
from collections.abc import Collection, Iterator, Sequence

from tilewright.native.conditions.call_graph import callers_first, on_cycles, reached
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


class _Part:
    """Lines of a listing: those of the function `name`, or lines between functions for no name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[str] = []

    def labels(self) -> set[str]:
        """The local labels that are defined here."""
        return {found[1] for line in self.lines if (found := _LABEL.match(line))}

    def named(self) -> set[str]:
        """The local labels that are defined or referred to here."""
        return {name for line in self.lines for name in _NAMED.findall(line)}

    def calls(self) -> Iterator[tuple[int, str]]:
        """The lines that call a named function, or jump to one, and its name."""
        for at, line in enumerate(self.lines):
            found = _CALL.match(line)
            if found and self.name:
                yield at, found[1]

    def call_instead(self, at: int, name: str) -> None:
        """Let the call in a line call another function."""
        found = _CALL.match(self.lines[at])
        assert found is not None
        self.lines[at] = f"{found.string[: found.start(1)]}{name}{found.string[found.end(1) :]}"


def with_own_copies(listing: Listing, examined: Collection[str]) -> str | None:
    """The text of a listing in which no two calls share a function of `examined`; None if no two
    calls do.

    Raises `TooLargeError` if the copies take too many lines.
    """
    parts = _parts(listing.lines)
    functions = {part.name: part for part in parts if part.name}
    sites: dict[str, list[tuple[_Part, int]]] = {name: [] for name in functions}
    callers: dict[str, set[str]] = {name: set() for name in functions}
    called: dict[str, set[str]] = {name: set() for name in functions}
    for part in parts:
        for at, name in part.calls():
            if name in functions:
                sites[name].append((part, at))
                callers[name].add(part.name)
                called[part.name].add(name)
    lead = reached(callers, (name for name in examined if name in functions)) - {_ENTRY}
    if all(len(sites[name]) < 2 for name in lead):
        return None
    copied = lead & _closed(parts) - on_cycles(called, callers)
    copies: dict[str, list[_Part]] = {}
    total = len(listing.lines)
    for name in callers_first(called):
        if name not in copied:
            continue
        for number, (caller, at) in enumerate(sites[name][1:], 1):
            total += len(functions[name].lines)
            if total > MOST_LINES:
                raise TooLargeError
            copy = _copy(functions[name], f"{name}.call{number}")
            copies.setdefault(name, []).append(copy)
            caller.call_instead(at, copy.name)
            for at_copy, other in copy.calls():
                if other in functions:
                    sites[other].append((copy, at_copy))
    if not copies:
        return None
    all_parts = (one for part in parts for one in (part, *copies.get(part.name, ())))
    return "\n".join(line for part in all_parts for line in part.lines) + "\n"


def _parts(lines: Sequence[str]) -> list[_Part]:
    parts = [_Part("")]
    for line in lines:
        begins = _BEGINS.match(line)
        if begins:
            parts.append(_Part(begins[1]))
        parts[-1].lines.append(line)
        name = parts[-1].name
        if name and line.strip().startswith((f".size\t{name},", f".size {name},")):
            parts.append(_Part(""))
    return parts


def _closed(parts: Sequence[_Part]) -> set[str]:
    """The functions without data that refer to no label of another one, and whose labels no other
    one refers to.
    """
    defining: dict[str, set[str]] = {}
    naming: dict[str, set[str]] = {}
    for part in parts:
        if part.name:
            for label in part.labels():
                defining.setdefault(label, set()).add(part.name)
            for label in part.named():
                naming.setdefault(label, set()).add(part.name)
    shared = (naming[label] | names for label, names in defining.items())
    open_ = {name for names in shared if len(names) > 1 for name in names}
    return {part.name for part in parts if part.name not in open_ and not _has_data(part)}


def _has_data(part: _Part) -> bool:
    return any(line.lstrip().startswith((".section", ".data", ".bss")) for line in part.lines)


def _copy(part: _Part, name: str) -> _Part:
    """A copy of a function with other labels and another name."""
    own, ending = part.labels(), name.removeprefix(part.name)
    word = re.compile(rf"(?<![\w.$]){re.escape(part.name)}(?![\w.$])")

    def renamed(found: re.Match[str]) -> str:
        return f"{found[0]}{ending}" if found[0] in own else found[0]

    copy = _Part(name)
    for line in part.lines:
        if line.lstrip().startswith((".file", ".globl", ".weak", ".hidden")):
            continue  # they stay with the function itself
        text = _NAMED.sub(renamed, _VIEW.sub(r"\1", line))
        copy.lines.append(word.sub(name, text))
    return copy
