"""Follows addresses of code, so that what a kernel computes from them counts as data.

A kernel that is examined contains further instructions, which record the results of conditions. A
distance between two places in its code, or between its code and its caller, is then another one
than in the kernel that is timed, so a condition on this distance could hide any special case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tilewright.native.conditions.effects import Effects, in_memory, registers
from tilewright.native.conditions.listing import Instruction, Listing

MARK = "code in "
"""Before the name of a register, or of a place on the stack: it contains an address of code."""
_LABEL = re.compile(r"([\w.$]+)(?:[+-]\d+)?\(%rip\)")
_PLACE = re.compile(r"-?\d*\(%r[bs]p\)")
_OF_CALLER = re.compile(r"(?:0|8)?\(%rbp\)")
_MOVES = re.compile(r"v?k?mov\w*|cmov\w+|push\w*|pop\w*|xchg\w*")
_VARIABLE = re.compile(r"([\w.$]+):")
_SECTION = re.compile(r"\s*\.(?:section|text|data|bss)\b")
_DIFFERENCE = re.compile(r"\s*\.(?:byte|value|long|quad|[248]byte)\s.*[.\w$]-[.A-Za-z_$]")


def is_of_caller(operand: str) -> bool:
    """Whether an operand is the place of the return address, or of the caller's `%rbp`."""
    return _OF_CALLER.fullmatch(operand) is not None


def labels_of_code(listing: Listing) -> frozenset[str]:
    """The names of functions, and of labels in functions."""
    functions = listing.functions.values()
    return frozenset(name for one in functions if one.code for name in (one.name, *one.labels))


def differences(listing: Listing) -> Iterator[str]:
    """The names of the variables that contain differences between addresses."""
    name = ""
    for line in listing.lines:
        label = _VARIABLE.match(line)
        if label or _SECTION.match(line):
            name = label[1] if label else ""
        elif name and _DIFFERENCE.match(line):
            yield name


def reads_address(one: Instruction, effects: Effects, state: set[str]) -> bool:
    """Whether an instruction computes something else than an address from addresses of code.

    A test whether a pointer to a function is null has the same result wherever the code lies.
    """
    if effects.is_address or _MOVES.fullmatch(one.name) or _tests_for_null(one):
        return False
    return any(MARK + name in state for name in _names(one.operands))


def _tests_for_null(one: Instruction) -> bool:
    first, last = one.operands[0], one.operands[-1]
    return (one.name == "testq" and first == last) or (one.name == "cmpq" and first == "$0")


def mark(one: Instruction, effects: Effects, labels: frozenset[str], state: set[str]) -> None:
    """Note whether an instruction has written an address of code."""
    target, sources = one.operands[-1], one.operands[:-1]
    if effects.is_address and sources:
        label = _LABEL.fullmatch(sources[0])
        named: Iterable[str] = registers(sources[0])
        marked = bool(label and label[1] in labels)
    else:
        named, marked = _names(sources), False
    if effects.is_address or _MOVES.fullmatch(one.name):
        marked = marked or any(MARK + name in state for name in named)
    for name in _names([target]):
        if marked:
            state.add(MARK + name)
        elif not in_memory(target) and not one.name.startswith("cmov"):
            state.discard(MARK + name)


def _names(operands: Iterable[str]) -> list[str]:
    """The registers and the places on the stack among operands."""
    return [
        name
        for operand in operands
        for name in (
            [operand] * bool(_PLACE.fullmatch(operand))
            if in_memory(operand)
            else registers(operand)[:1]
        )
    ]
