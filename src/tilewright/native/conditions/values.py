"""Which values of a kernel are recorded besides conditions: numbers that a kernel computes without
a condition, and that can only be an element of a result by a detour.

They are whole numbers that become floating-point numbers, and elements of an array whose index
depends on data. If such a value is the same in all checks, it stands for a special case, as the
mask of `if (same) C[0][0] += 1` does.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

from tilewright.native.conditions.effects import KEPT, effects_of, in_memory, registers
from tilewright.native.conditions.listing import Function, Instruction

_FROM_WHOLE = re.compile(r"^v?cvtu?si2s[sd][lq]?$")
_MOVED = re.compile(r"^v?mov([dq])$")
_LOADS = re.compile(r"^v?(?:mov|add|sub|mul|div|min|max|fn?m(?:add|sub)\d{3})s([sd])$")
_GENERAL = re.compile(r"^%(?:e\w\w|r\d+d)$")
_INDEX = re.compile(r"\([^,()]*,(%\w+)")
_COMPARES_NUMBERS = re.compile(r"v?u?comis|fu?comi")
_READS = re.compile(r"v?movs[sd]$")
_COPIES = re.compile(r"v?mov(?:s[sd]|[au]p[sd])$")
_COMPUTES_FLOAT = re.compile(
    r"v?(?:(?:add|sub|mul|div|min|max|sqrt|fn?m(?:add|sub)\d{3})[sp]|cvt(?:s[sd]|u?si)2s)[sd][lq]?$"
)
_OF_STRINGS = ("pcmpestr", "pcmpistr", "vpcmpestr", "vpcmpistr")
_WRITES_MORE = ("xchg", "xadd", "cmpxchg", "mulx", "pop", *_OF_STRINGS)
"""Instructions that write other registers than that of their last operand."""
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
    if not _has_value(one.name):
        return None
    operand = one.operands[0] if one.operands else ""
    moved = _MOVED.match(one.name)
    if data and (_FROM_WHOLE.match(one.name) or (moved and "mm" in one.operands[-1])):
        if operand.startswith("%") and "mm" not in operand:
            is_float = moved and _keeps_float(function, at)
            is_known = is_float or _is_constant(function, at, operand)
            return None if is_known else (operand, 4 if _GENERAL.match(operand) else 8)
        if _FROM_WHOLE.match(one.name) and is_addressed(operand):
            is_constant = _holds_constants(function, operand)
            return None if is_constant else (operand, 8 if one.name.endswith("q") else 4)
    loads, index = _LOADS.match(one.name), _INDEX.search(operand)
    if loads and index and is_addressed(operand) and set(registers(index[1])) & set(state):
        return operand, 4 if loads[1] == "s" else 8
    return None


@lru_cache(maxsize=1 << 10)
def _has_value(name: str) -> bool:
    return any(form.match(name) for form in (_FROM_WHOLE, _MOVED, _LOADS))


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
        if one.name.startswith(("j", "call", *_WRITES_MORE)) or effects_of(one).in_a_and_d:
            return False
        if (
            one.operands
            and one.operands[-1].startswith("%")
            and registers(one.operands[-1]) == name
        ):
            source = one.operands[0]
            is_constant = source.startswith("$") or _holds_constants(function, source)
            is_constant = is_constant and one.name not in ("movb", "movw")
            return one.name.startswith("mov") and is_constant
    return False


def _keeps_float(function: Function, at: int) -> bool:
    """Whether an instruction only moves the bits of a float back from a general register.

    The register was then last written, on every way to the instruction, with the bits of a register
    that an operation on floats wrote, or with a constant. A constant that a condition selects is
    found by the condition. Results of comparisons are no floats, because their bits are a mask.
    """
    one = function.code[at]
    if function.jumps_anywhere:
        return False
    width = "l" if one.name.endswith("d") else "q"
    open_ = [(at, registers(one.operands[0])[0])]
    seen = set(open_)
    while open_:
        place, name = open_.pop()
        places = function.before(place)
        if place == 0 or not places:
            return False
        for before in places:
            sought = _source(function.code[before], name, width)
            if sought is None:
                return False
            if sought and (before, sought) not in seen:
                seen.add((before, sought))
                open_.append((before, sought))
    return True


def _source(one: Instruction, name: str, width: str) -> str | None:
    """The register whose value a register has after an instruction; empty if it is a float or a
    constant, None if it is neither. In doubt, it is neither.
    """
    effects = effects_of(one)
    if effects.is_nothing or effects.only_compares or one.name.startswith("j"):
        return name
    if one.name.startswith("call"):
        return name if name in KEPT else None
    if effects.in_a_and_d or not one.operands or one.name.startswith(_WRITES_MORE):
        return None
    target, source = one.operands[-1], one.operands[0]
    if in_memory(target) or name not in registers(target):
        return name
    if "{" in target:
        return None
    if name.startswith("v"):
        if _COMPUTES_FLOAT.match(one.name) or (_READS.match(one.name) and in_memory(source)):
            return ""
        return registers(source)[0] if _COPIES.match(one.name) and source[0] == "%" else None
    if one.name in (f"mov{width}", "movabsq") and source.startswith("$"):
        return ""
    moves = one.name == f"mov{width}" or one.name.endswith("mov" + ("d" if width == "l" else "q"))
    return registers(source)[0] if moves and source.startswith("%") else None


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
