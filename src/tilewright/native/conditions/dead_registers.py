"""Whether a register's value is used."""

from __future__ import annotations

import re

from tilewright.native.conditions.effects import effects_of, in_memory, registers
from tilewright.native.conditions.listing import Function, Instruction

_CALL_KEEPS = ("b", "bp", "sp", "12", "13", "14", "15")
_WHOLE = re.compile(r"%(?:r\w+|e\w\w)")
_NARROW = re.compile(r"%r\d+[wb]")


def is_dead(function: Function, at: int, name: str, *, returns: bool) -> bool:
    """Whether no instruction reads what a general register contains before the instruction at a
    position. In doubt, one does. The function `returns` a result or does not.
    """
    seen: set[int] = set()
    open_ = [at]
    while open_:
        place = open_.pop()
        if place in seen:
            continue
        seen.add(place)
        if place >= len(function.code):
            return False
        one = function.code[place]
        if one.name.startswith("ret"):
            if name in _CALL_KEEPS or (returns and name in ("a", "d")):
                return False
        elif one.name.startswith("j"):
            target = function.labels.get(one.operands[0]) if one.operands else None
            if target is None:
                return False
            open_.append(target)
            if one.name != "jmp":
                open_.append(place + 1)
        elif _is_read(one, name):
            return False
        elif not _is_written(one, name):
            open_.append(place + 1)
    return True


def _is_read(one: Instruction, name: str) -> bool:
    """Whether an instruction may read a register, or writes only a part of it."""
    effects = effects_of(one)
    if effects.is_nothing:
        return False
    if one.name.startswith("call") or not one.operands:
        return name not in _CALL_KEEPS
    if one.name.startswith("pop") and one.operands[0].startswith("%"):
        return False
    if name in effects.reads or any(name in registers(x) for x in one.operands[:-1]):
        return not effects.is_constant
    last = one.operands[-1]
    return name in registers(last) and (in_memory(last) or not _is_whole(last))


def _is_written(one: Instruction, name: str) -> bool:
    return bool(one.operands) and name in registers(one.operands[-1])


def _is_whole(operand: str) -> bool:
    """Whether an operand is a general register of 32 or 64 bits."""
    return bool(_WHOLE.fullmatch(operand)) and not _NARROW.fullmatch(operand)
