"""Finds the copies of an instruction that the compiler made of one place in a kernel's source, for
instance when it unrolled a loop.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from tilewright.core.records import Artifact
from tilewright.parts.debug_lines import source_places
from tilewright.parts.languages import C
from tilewright.parts.machine_code.instructions import Instruction

_Key: TypeAlias = tuple[int, int, str]
_SECTION = "section"
"""With this attribute, a kernel can write its own debug information."""
_JOINED_LINES = re.compile(r"\\\s*\n")
_SYMBOLS = b"<>=!?:&|^+-*/%~()[]"


def copies_of(
    artifact: Artifact, code: Sequence[Instruction], pcs: Collection[int]
) -> Mapping[int, Sequence[int]]:
    """The copies of the instruction at each of these addresses, itself included, if known.

    Copies belong to the same line and column of the source, and do the same; branches may be
    inverted. An instruction that belongs to a name or keyword has no copies, because the name may
    be that of a macro, which can contain several different conditions.
    """
    if _SECTION in _JOINED_LINES.sub("", artifact.source):
        return {}
    operations = {
        one.address: "branch" if one.flow == "branch" else one.text.split()[0] for one in code
    }
    lines = artifact.source.encode().split(b"\n")
    keys: dict[int, _Key] = {}
    groups: defaultdict[_Key, list[int]] = defaultdict(list)
    for pc, place in zip(pcs, source_places(artifact.binary, list(pcs), C.file), strict=True):
        if place is not None and pc in operations and _is_symbol(lines, *place):
            keys[pc] = (*place, operations[pc])
            groups[keys[pc]].append(pc)
    return {pc: groups[key] for pc, key in keys.items()}


def _is_symbol(lines: Sequence[bytes], line: int, column: int) -> bool:
    """Whether an operator or a bracket is at this place, both numbers counted from 1."""
    found = lines[line - 1][column - 1 : column] if line <= len(lines) else b""
    return found in _SYMBOLS and found != b""
