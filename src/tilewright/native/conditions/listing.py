"""The functions in a compiler's assembly text for x86-64 (AT&T syntax)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

_FUNCTION = re.compile(r"\s*\.type\s+([\w.$]+),\s*@function")
_LABEL = re.compile(r"([\w.$]+):")
_PLACE = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+(?:"[^"]*"\s+)?"([^"]*)"')
_PREFIX = re.compile(r"(?:rep|repz|repnz|repe|repne|lock|bnd|notrack|data16|\{\w+\})\s+")
_CONSTANTS = re.compile(r"\s*\.section\s+\.rodata")
_KEPT = re.compile(r"\s*\.(?:local|l?comm|data|bss|section\s+\.(?:data|bss))\b")
_OTHER_SECTION = re.compile(r"\s*\.(section|text|data|bss)\b")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: the number of its line in the listing, its mnemonic without prefixes, its
    operands, and its line of the source if that is known.
    """

    at: int
    name: str
    operands: tuple[str, ...]
    line: int | None


@dataclass(slots=True)
class Function:
    """The instructions of a function, and the position of the first one after each label. `fixed`
    keeps what `fixed.py` finds about them.
    """

    name: str
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    fixed: Any = None
    _jumps: dict[int, list[int]] | None = None
    _jumps_anywhere: bool | None = None

    @property
    def jumps_anywhere(self) -> bool:
        """Whether an instruction jumps to an address that is not a label."""
        if self._jumps_anywhere is None:
            self._jumps_anywhere = any(
                one.name.startswith("j") and (not one.operands or one.operands[0].startswith("*"))
                for one in self.code
            )
        return self._jumps_anywhere

    def before(self, at: int) -> list[int]:
        """The positions of the instructions after which the one at a position may be next."""
        if self._jumps is None:
            self._jumps = {}
            for place, one in enumerate(self.code):
                target = self.labels.get(one.operands[0]) if one.operands else None
                if one.name.startswith("j") and target is not None:
                    self._jumps.setdefault(target, []).append(place)
        goes_on = at > 0 and not self.code[at - 1].name.startswith(("jmp", "ret", "ud"))
        return [*self._jumps.get(at, ()), *([at - 1] if goes_on else ())]


@dataclass(frozen=True, slots=True)
class Listing:
    """A compiler's assembly text by lines, its functions by name, and the names of constants."""

    lines: tuple[str, ...]
    functions: Mapping[str, Function]
    constants: frozenset[str]

    def code(self) -> Iterator[Instruction]:
        """The instructions of all functions."""
        return chain.from_iterable(function.code for function in self.functions.values())

    @property
    def keeps_variables(self) -> bool:
        """Whether there is memory, apart from the stack, that a kernel can write."""
        return any(_KEPT.match(line) for line in self.lines)

    def functions_of(self, instructions: Iterable[Instruction]) -> set[str]:
        """The names of the functions that contain these instructions."""
        places = {one.at for one in instructions}
        return {
            name
            for name, function in self.functions.items()
            if any(one.at in places for one in function.code)
        }


def read_listing(text: str, file: str) -> Listing:
    """Read the output of `gcc -S` or `clang -S`; source lines are those of `file`."""
    lines = text.splitlines()
    names = {found[1] for line in lines if (found := _FUNCTION.match(line))}
    functions: dict[str, Function] = {}
    constants: set[str] = set()
    files: set[str] = set()
    inside: Function | None = None
    place, constant = None, False
    for at, line in enumerate(lines):
        label = _LABEL.match(line)
        if label:
            if label[1] in names:
                inside = functions[label[1]] = Function(label[1])
                place = None
            elif inside is not None:
                inside.labels[label[1]] = len(inside.code)
            if constant:
                constants.add(label[1])
            continue
        words = line.strip()
        if not words or words.startswith(("#", "//")):
            continue
        if words.startswith("."):
            if inside is not None and words.startswith(f".size\t{inside.name},"):
                inside = None
            found = _PLACE.match(line)
            if found:
                place = int(found[2]) if found[1] in files else None
            found = _FILE.match(line)
            if found and found[2].rpartition("/")[2] == file:
                files.add(found[1])
            if _OTHER_SECTION.match(line):
                constant = bool(_CONSTANTS.match(line))
            continue
        if inside is not None:
            inside.code.append(_instruction(at, words, place))
    return Listing(tuple(lines), functions, frozenset(constants))


def _instruction(at: int, words: str, place: int | None) -> Instruction:
    words = words.partition("#")[0].strip()
    while found := _PREFIX.match(words):
        words = words[found.end() :]
    name, _, rest = words.replace("\t", " ").partition(" ")
    operands, depth, last = [], 0, ""
    for letter in rest.strip():
        depth += (letter in "({") - (letter in ")}")
        if letter == "," and not depth:
            operands.append(last.strip())
            last = ""
        else:
            last += letter
    if last.strip():
        operands.append(last.strip())
    return Instruction(at, name, tuple(operands), place or None)
