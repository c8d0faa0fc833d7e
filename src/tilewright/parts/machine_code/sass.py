"""Reads instructions of NVIDIA GPUs and their source lines from the output of nvdisasm."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.parts.machine_code.instructions import Class, Flow, Instruction

BYTES = 16
"""Size of one instruction in bytes, on architecture sm_70 and later."""

_SECTION = re.compile(r"^\s*\.section\s+(\.text\.[^\s,\"]+)")
_SOURCE_LINE = re.compile(r'^\s*//## File "(.*)", line (\d+)(.*)$')
_LABEL = re.compile(r"^([^\s:]+):\s*$")
_CODE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*$")
_LEADS_TO = re.compile(r"`\(([^)]+)\)")
_WORD = re.compile(r"^(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)")

_LOADS = frozenset(
    {"LD", "LDG", "LDS", "LDL", "LDSM", "LDT", "LDTM", "LDC", "ULDC", "LDGSTS", "SULD", "TEX",
     "TLD", "TLD4", "UTMALDG", "UBLKCP"}
)  # fmt: skip
_STORES = frozenset({"ST", "STG", "STS", "STL", "STSM", "STTM", "SUST", "UTMASTG"})
_ATOMIC = frozenset(
    {"ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDAS", "UTMAREDG", "UTMACMDFLUSH"}
)  # fmt: skip
_TILES = re.compile(r"^(?:[HIDQBO]?G?MMA|UTC\w+MMA)$")
_FLOATS = re.compile(
    r"^(?:[FDH](?:FMA|ADD|MUL|SET|SETP|MNMX|SWZADD|CHK|MNMX3|ADD2|MUL2|FMA2)\w*|MUFU)$"
)
_BRANCHES = frozenset({"BRA", "BRX", "JMP", "JMX", "RET", "EXIT", "BREAK", "BRXU", "JMXU"})
_OTHER = frozenset(
    {"NOP", "BAR", "MEMBAR", "FENCE", "DEPBAR", "LDGDEPBAR", "WARPSYNC", "BSSY", "BSYNC", "ERRBAR",
     "CCTL", "CCTLL", "CCTLT", "YIELD", "NANOSLEEP", "SYNCS", "ARRIVES", "ENDCOLLECTIVE", "ACQBULK",
     "WARPGROUP", "PREEXIT", "BPT", "KILL", "UCGABAR_ARV", "UCGABAR_WAIT"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Disassembly:
    """The instructions of all functions.

    `entries` are the addresses at which sections of code begin, and `lines` the source lines of the
    addresses that belong to the requested file.
    """

    code: tuple[Instruction, ...]
    entries: tuple[int, ...]
    lines: Mapping[int, int]


def read_nvdisasm(text: str, file: str, base: int = 0) -> Disassembly:
    """Parse the output of `nvdisasm -c -g`, with the first section at address `base`.

    In a cubin, every section begins at address 0; in the result, each section follows the previous
    one. Labels in operands become addresses. The jump to itself after a function and no-ops are
    left out, because they are never executed.
    """
    at = base
    labels: dict[str, int] = {}
    found: list[tuple[int, str]] = []
    entries: list[int] = []
    lines: dict[int, int] = {}
    line, begin = None, base
    for row in text.splitlines():
        section, place, label, code = (
            p.match(row) for p in (_SECTION, _SOURCE_LINE, _LABEL, _CODE)
        )
        if section:
            begin, line = at, None
            entries.append(begin)
        elif place:
            # For inlined code, the first place is its own, and the others are those of the calls.
            inlined = "inlined" in place[3]
            own = place[1].rpartition("/")[2] == file
            line = int(place[2]) if own else (line if inlined else None)
        elif label:
            labels[label[1]] = at
        elif code:
            address = begin + int(code[1], 16)
            at = address + BYTES
            found.append((address, code[2]))
            if line is not None:
                lines[address] = line
    made = [_instruction(address, words, labels) for address, words in found]
    return Disassembly(tuple(one for one in made if not _never_runs(one)), tuple(entries), lines)


def _never_runs(one: Instruction) -> bool:
    return one.padding or (one.flow == "jump" and one.target == one.address)


def _instruction(address: int, words: str, labels: Mapping[str, int]) -> Instruction:
    named = _LEADS_TO.search(words)
    target = labels.get(named[1]) if named else None
    text = words
    if named is not None and target is not None:
        text = words.replace(named[0], f"{target:#x}")
    name = found[1] if (found := _WORD.match(words)) else ""
    flow = _flow(name, words)
    kind = _class(name)
    atomic = name in _ATOMIC
    return Instruction(
        address,
        BYTES,
        " ".join(text.split()),
        kind,
        flow,
        target if flow in ("branch", "jump", "call") else None,
        reads=kind == "loads" or atomic,
        writes=kind == "stores" or atomic or name == "LDGSTS",
        frame=name in ("LDL", "STL"),
        padding=name == "NOP",
    )


def _flow(name: str, words: str) -> Flow:
    predicated = words.startswith("@")
    if name == "CALL":
        return "call"
    if name in ("BRA", "JMP"):
        # After BRA.DIV and similar instructions, and those with a predicate operand, execution may
        # continue.
        plain = re.fullmatch(r"(?:BRA|JMP)(?:\.U)? `\([^)]+\)", words) is not None
        return "jump" if plain and not predicated else "branch"
    if name in ("EXIT", "RET", "BRX", "JMX", "BRXU", "JMXU", "KILL"):
        return "next" if predicated else "end"
    return "next"


def _class(name: str) -> Class:
    if _TILES.match(name):
        return "commands"
    if name in _LOADS:
        return "loads"
    if name in _STORES or name in _ATOMIC:
        return "stores"
    if _FLOATS.match(name):
        return "floating-point arithmetic"
    if name in _BRANCHES:
        return "branches"
    if name == "CALL":
        return "calls"
    return "other" if name in _OTHER else "arithmetic"
