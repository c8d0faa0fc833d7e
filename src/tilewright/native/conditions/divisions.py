"""Finds what a compiler adds to a quotient, or to a dividend, to divide a signed number by a
constant.

Shifts round downwards, and a division in C rounds towards zero. A compiler therefore corrects
quotients of negative numbers by the sign bit of the dividend. A correction is no special case of
the kernel, but a part of one operation, whose result is recorded like that of any other one.

Only complete divisions count, by a multiplier that is right for every dividend (Granlund and
Montgomery, "Division by invariant integers using multiplication", 1994), and only if nothing else
uses the correction. A kernel that computes a mask from a sign, or selects by it, has a condition.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilewright.native.conditions.blocks import Block
from tilewright.native.conditions.dead_registers import is_dead
from tilewright.native.conditions.effects import effects_of, registers
from tilewright.native.conditions.listing import Function, Instruction

_BY_PRODUCT = re.compile(
    r"movslq (?P<s>\w+) (?P<t>\w+);imulq \$(?P<m>-?\d+) (?P=t) (?P=t);"
    r"(?:sarq \$(?P<k>\d+)|shrq \$32) (?P=t);(?P<more>addl (?P=s) (?P=t);)?"
    r"(?:sarl(?: \$)?(?P<j>\d*) (?P=t);)?"
    r"(?:movl (?P=s) (?P<z>\w+);)?sarl \$31 (?P<y>\w+);subl (?:(?P=y) (?P=t)|(?P=t) (?P=y));"
)
_BY_UPPER_HALF = re.compile(
    r"movq (?P<s>\w+) a;imulq (?P<r>\w+);(?P<more>addq (?P=s) d;)?(?:sarq(?: \$)?(?P<j>\d*) d;)?"
    r"(?:movq (?P=s) (?P<z>\w+);)?sarq \$63 (?P<y>\w+);subq (?:(?P=y) d|d (?P=y));"
)
_BY_TWO = re.compile(
    r"mov(?P<w>[lq]) (?P<s>\w+) (?P<y>\w+);shr(?P=w) \$(?P<k>\d+) (?P=y);"
    r"add(?P=w) (?P=s) (?P=y);sar(?P=w) (?P=y);"
)
_BY_SHIFT = re.compile(
    r"lea(?P<w>[lq]) (?P<c>\d+)\((?P<s>\w+)\) (?P<y>\w+);test(?P=w) (?P=s) (?P=s);"
    r"cmovns(?P=w)? (?P=s) (?P=y);sar(?P=w) \$(?P<j>\d+) (?P=y);"
)
_BY_SHIFT_OF_SUM = re.compile(
    r"lea(?P<w>[lq]) (?P<c>-?\d+)\((?P<s>\w+)\) (?P<x>\w+);"
    r"(?P<add>add|sub)(?P=w) \$(?P<n>-?\d+) (?P=s);"
    r"(?:cmovs(?P=w)? (?P=x) (?P<y>(?P=s))|cmovns(?P=w)? (?P=s) (?P<z>(?P=x)));"
    r"sar(?P=w) \$(?P<j>\d+) (?:(?P=y)|(?P=z));"
)
_REMAINDER = re.compile(
    r"mov(?P<w>[lq]) (?P<s>\w+) (?P<y>\w+);(?:sar(?P=w) \$(?P<sign>\d+) (?P=y);)?"
    r"shr(?P=w) \$(?P<k>\d+) (?P=y);"
    r"(?:add(?P=w) (?P=y) (?P=s)|lea(?P=w) \((?P=s),(?P=y)\) (?P<x>\w+));"
    r"(?:and[lq] \$(?P<c>\d+)|movz(?P<e>[bw])l (?P<u>\w+)) (?P<t>\w+);sub(?P=w) (?P=y) (?P=t);"
)
_REGISTER = re.compile(r"%(?![abcd]h)\w+")
_CORRECTS = ("sar", "shr", "cmov")
_LONGEST = 8
"""The most instructions of a division."""


def corrections(function: Function, blocks: Sequence[Block], *, returns: bool) -> frozenset[int]:
    """The positions of the instructions that compute corrections, in a function that `returns` a
    result or does not.
    """
    found: set[int] = set()
    for block in blocks:
        code = function.code[block.code.start : block.code.stop]
        if not any(one.name.startswith(_CORRECTS) for one in code):
            continue
        texts = [_text(one) for one in code]
        for first in range(len(texts)):
            match = _division("".join(texts[first : first + _LONGEST]), function)
            if match is None:
                continue
            last = first + match[0].count(";") - 1
            name = match["y"] or match["z"]
            ending, after = f" {name};", block.code[last] + 1
            if texts[last].endswith(ending) or is_dead(function, after, name, returns=returns):
                found |= {
                    block.code[at]
                    for at in range(first, last)
                    if texts[at].startswith(_CORRECTS) and texts[at].endswith(ending)
                }
    return frozenset(found)


def _text(one: Instruction) -> str:
    """An instruction with the same name for all widths of a register."""
    operands = (_REGISTER.sub(lambda name: registers(name[0])[0], x) for x in one.operands)
    return f"{' '.join((one.name, *operands))};"


def _division(text: str, function: Function) -> re.Match[str] | None:
    """The match of the instructions that a text begins with, if they divide by a constant."""
    if found := _BY_PRODUCT.match(text):
        least, more = int(found["k"] or 32), bool(found["more"])
        is_half = least == 32 or (least > 32 and not more)
        multiplier = int(found["m"]) + (more << 32)
        is_right = is_half and _is_right(multiplier, least + _shift(found), 32)
        return found if is_right and found["y"] == (found["z"] or found["s"]) else None
    if found := _BY_UPPER_HALF.match(text):
        constant = _constant(function, found["r"])
        if constant is None or found["y"] != (found["z"] or found["s"]):
            return None
        multiplier = constant + (bool(found["more"]) << 64)
        return found if _is_right(multiplier, 64 + _shift(found), 64) else None
    if found := _BY_TWO.match(text):
        return found if int(found["k"]) == _width(found) - 1 else None
    if found := _BY_SHIFT.match(text):
        return found if int(found["c"]) == (1 << int(found["j"])) - 1 else None
    if found := _BY_SHIFT_OF_SUM.match(text):
        added = int(found["n"]) * (1 if found["add"] == "add" else -1)
        is_right = int(found["c"]) == added + (1 << int(found["j"])) - 1
        return found if is_right and found["x"] != found["s"] else None
    if found := _REMAINDER.match(text):
        width, shift = _width(found), int(found["k"])
        is_sign = int(found["sign"] or shift) == width - 1
        total = found["x"] or found["s"]
        is_same = found["t"] == (found["u"] or total) == total != found["y"]
        mask = int(found["c"] or {"b": 255, "w": 65535}[found["e"]])
        is_right = is_sign and is_same and mask == (1 << (width - shift)) - 1
        return found if is_right else None
    return None


def _width(found: re.Match[str]) -> int:
    return {"l": 32, "q": 64}[found["w"]]


def _shift(found: re.Match[str]) -> int:
    """The last shift of a quotient, which is 1 without a number, and 0 without a shift."""
    return 0 if found["j"] is None else int(found["j"] or 1)


def _is_right(multiplier: int, shift: int, width: int) -> bool:
    """Whether the product with a multiplier, shifted to the right, is the quotient by a constant,
    rounded downwards, for all signed dividends of this width."""
    if multiplier <= 0:
        return False
    divisor = (1 << shift) // multiplier + 1
    return divisor > 1 and multiplier * divisor - (1 << shift) <= 1 << (shift - width + 1)


def _constant(function: Function, name: str) -> int | None:
    """The only number that a function writes to a register, before it reads it; None if it writes
    anything else."""
    writes = [
        one
        for one in function.code
        if one.operands
        and one.operands[-1].startswith("%")
        and name in registers(one.operands[-1])
        and not effects_of(one).in_a_and_d
    ]
    moves = [one for one in writes if one.name in ("movabsq", "movq", "movl")]
    if len(writes) != 1 or not moves or not re.fullmatch(r"\$-?\d+", moves[0].operands[0]):
        return None
    is_set_first = is_dead(function, 0, name, returns=False)
    return int(moves[0].operands[0][1:]) if is_set_first else None
