"""Which values of a kernel are recorded besides conditions: numbers that a kernel computes without
a condition, and that can only be an element of a result by a detour.

They are whole numbers that become floating-point numbers, and elements of an array whose index
depends on data. If such a value is the same in all checks, it stands for a special case, as the
mask of `if (same) C[0][0] += 1` does.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from tilewright.native.conditions.effects import KEPT, effects_of, in_memory, registers
from tilewright.native.conditions.listing import Function

_FROM_WHOLE = re.compile(r"^v?cvtu?si2s[sd][lq]?$")
_MOVED = re.compile(r"^v?mov([dq])$")
_LOADS = re.compile(r"^v?(?:mov|add|sub|mul|div|min|max|fn?m(?:add|sub)\d{3})s([sd])$")
_GENERAL = re.compile(r"^%(?:e\w\w|r\d+d)$")
_INDEX = re.compile(r"\([^,()]*,(%\w+)")
_COMPARES_NUMBERS = re.compile(r"v?u?comis|fu?comi")
_READS = re.compile(r"v?movs[sd]$")
_NEAR = 4
"""Number of instructions around a test for NaN that are looked at."""


def value_of(
    function: Function, at: int, state: Collection[str], *, data: bool
) -> tuple[str, int] | None:
    """The operand that is recorded before an instruction, and its size in bytes; None if none is.

    Args:
        function: the function, at whose position `at` the instruction is.
        state: the registers that depend on data there.
        data: whether the instruction's result depends on data.
    """
    one = function.code[at]
    operand = one.operands[0] if one.operands else ""
    moved = _MOVED.match(one.name)
    if data and (_FROM_WHOLE.match(one.name) or (moved and "mm" in one.operands[-1])):
        if operand.startswith("%") and "mm" not in operand:
            is_float = _is_constant(function, at, operand) or _holds_float(function, at, operand)
            return None if is_float else (operand, 4 if _GENERAL.match(operand) else 8)
        if _FROM_WHOLE.match(one.name) and is_addressed(operand):
            is_constant = _holds_constants(function, operand)
            return None if is_constant else (operand, 8 if one.name.endswith("q") else 4)
    loads, index = _LOADS.match(one.name), _INDEX.search(operand)
    if loads and index and is_addressed(operand) and set(registers(index[1])) & set(state):
        return operand, 4 if loads[1] == "s" else 8
    return None


def is_addressed(operand: str) -> bool:
    """Whether an operand is in memory, at a place that is not relative to the end of the stack."""
    return in_memory(operand) and "%rsp" not in operand and "%fs:" not in operand


def _is_constant(function: Function, at: int, register: str) -> bool:
    """Whether the register was last set to a constant, in the instructions directly before."""
    name = registers(register)
    targets = set(function.labels.values())
    for before in range(at - 1, -1, -1):
        if before + 1 in targets:
            return False
        one = function.code[before]
        if one.name.startswith(("j", "call")):
            return False
        if (
            one.operands
            and one.operands[-1].startswith("%")
            and registers(one.operands[-1]) == name
        ):
            source = one.operands[0]
            is_constant = source.startswith("$") or _holds_constants(function, source)
            return one.name.startswith("mov") and is_constant
    return False


def _holds_float(function: Function, at: int, register: str) -> bool:
    """Whether a register only keeps a float at a position, because everything that may have been
    written to it last is a float or a constant. A constant that a condition selects is found by the
    condition.
    """
    open_ = [(at, registers(register))]
    seen = set(open_)
    while open_:
        place, name = open_.pop()
        for before in function.before(place):
            one = function.code[before]
            sought = name
            if one.operands and one.operands[-1][:1] == "%" and registers(one.operands[-1]) == name:
                source = one.operands[0]
                if one.name.startswith("mov") and source.startswith("$"):
                    continue
                if one.name.startswith("mov") and source.startswith("%"):
                    if "mm" in source:
                        continue
                    sought = registers(source)
                elif not effects_of(one).only_compares:
                    return False
            elif one.name.startswith("call") and name[0] not in KEPT:
                return False
            if before == 0:
                return False
            if (before, sought) not in seen:
                seen.add((before, sought))
                open_.append((before, sought))
    return True


def _holds_constants(function: Function, place: str) -> bool:
    """Whether only constants are written to a place, of those instructions that name it."""
    writes = [one for one in function.code if len(one.operands) > 1 and one.operands[-1] == place]
    return bool(writes) and all(
        one.name.startswith("mov") and one.operands[0].startswith("$") for one in writes
    )


def nan_condition(function: Function, at: int) -> str | None:
    """The condition of a test for NaN of a number that the kernel has computed.

    Numbers that are read through a pointer are taken for inputs, which are never NaN. A test for
    equality is compiled to two conditions, of which one tells whether an operand is NaN.
    """
    found = effects_of(function.code[at]).condition_for_nan
    if found is None:
        return None
    first = max(0, at - _NEAR)
    for compares in range(at - 1, first - 1, -1):
        one = function.code[compares]
        if _COMPARES_NUMBERS.match(one.name):
            if len(set(one.operands)) == 1 and len(one.operands) > 1:
                return None if _is_read(function, compares, one.operands[0]) else found
            break
    around = function.code[first : at + _NEAR + 1]
    return None if any(effects_of(other).condition in ("e", "ne") for other in around) else found


def _is_read(function: Function, at: int, register: str) -> bool:
    """Whether the register was read through a pointer, in the instructions directly before."""
    name = registers(register)
    for before in range(at - 1, max(0, at - _NEAR) - 1, -1):
        one = function.code[before]
        if one.operands and registers(one.operands[-1]) == name:
            return bool(_READS.match(one.name)) and is_addressed(one.operands[0])
    return False
