"""Which whole numbers of a kernel are recorded as a sequence: all values that an instruction
computes, or reads, in one call.

If a number depends on input values, but its sequence is the same in all calls, it stands for a
special case, for instance for a mask that selects an element, a place or a number of iterations.
If a number that is read from memory has the same sequence in all calls, it need not depend on input
values, as a size that is kept in memory.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

from tilewright.native.conditions.effects import effects_of_words, in_memory, registers
from tilewright.native.conditions.implicit import other_targets
from tilewright.native.conditions.listing import Instruction
from tilewright.native.conditions.stack_cells import width_of

_WIDTHS = (
    (re.compile(r"%(?:[abcd][lh]|[sd]il|[sb]pl|r\d+b)"), 1),
    (re.compile(r"%(?:[abcd]x|[sd]i|bp|r\d+w)"), 2),
    (re.compile(r"%(?:e\w\w|r\d+d)"), 4),
    (re.compile(r"%(?:r[a-d]x|r[sd]i|r\d+|k[0-7])"), 8),
    (re.compile(r"%xmm\d+"), 16),
    (re.compile(r"%ymm\d+"), 32),
    (re.compile(r"%zmm\d+"), 64),
)
_MOVES = re.compile(r"k?mov|xchg|bswap|call|push|pop[wlq]?$")
_MOVES_FLOAT = re.compile(r"v?mov[au]?[sp][sd]$")
_KEEPS_DIFFERENCES = re.compile(r"inc|dec|neg|not|lea")
_ADDS = re.compile(r"add|sub|xor")
"""Instructions whose results differ if their operand does: those of `_ADDS` with a constant, those
of `_KEEPS_DIFFERENCES` with one operand in a register."""
_OF_VECTORS = re.compile(
    r"v?p(?:add|sub|or|xor|mul|sll|srl|sra|max|min|shuf|perm|abs)\w*|v?(?:or|xor)p[sd]"
    r"|v(?:perm|shuf|p?gather)\w+|v?pmovmskb|v?movmskp[sd]|k(?:and|or|xor|xnor|shift|unpck)\w+"
)
"""Instructions whose result is made of bits, and not of floating-point numbers only."""
_SELECTS = re.compile(r"v?p?andn?(?:p[sd]|[dq])?|v?pternlog[dq]")
"""Instructions that also select constants by a mask, as a clamp does."""
_TESTS_EQUALITY = re.compile(r"v?cmpn?eq[sp][sd]|v?pcmpeq[bwdq]")
_COMPARES = re.compile(r"vcmp[sp][sd]|vpcmpu?[bwdq]")
_OF_EQUALITY = re.compile(r"\$(?:0|4|8|12|16|20|24|28)")
"""Kinds of comparisons of a vector that are true if both numbers are equal, or if they are not. A
clamp compares otherwise, and need not change any number.
"""
_TWO = 2
_OF_FLOATS = re.compile(
    r"v?(?:add|sub|div|sqrt|max|min|round|rndscale|reduce|range|getexp|getmant|scalef|fixupimm"
    r"|rcp(?:14)?|rsqrt(?:14)?|cvts[sd]2|cvtp[sd]2|fn?m(?:add|sub)\d{3})(s[sd]|p[sd])[xyz]?"
)
"""Instructions on floating-point numbers whose result may be the same for many operands: small
terms are lost in a sum, and small numbers by a maximum."""
_STORES_OF_X87 = re.compile(r"fstp?([slt])")
_SCALARS = {"ss": 4, "sd": 8, "s": 4, "l": 8, "t": 8}


def results_of(
    one: Instruction,
    state: Collection[str],
    *,
    of_conditions: bool = False,
    floats_in_memory: bool = True,
) -> tuple[tuple[str, int], ...]:
    """The registers, or the place in memory, to which an instruction writes a whole number or a
    mask that depends on input values, and their sizes in bytes.

    `state` contains the registers that depend on data. A number that is only moved, or differs
    whenever an operand does, is not among them, and the result of a condition only if
    `of_conditions`. Vector registers may contain floats, which are not recorded there, but in
    general registers and, with `floats_in_memory`, in memory.
    """
    found, is_selection = _results_of(
        one.name, one.operands, of_conditions=of_conditions, floats_in_memory=floats_in_memory
    )
    if is_selection and not _selects_by_data(one, state):
        return found[:-1]
    return found


@lru_cache(maxsize=1 << 14)
def _results_of(
    name: str, operands: tuple[str, ...], *, of_conditions: bool, floats_in_memory: bool
) -> tuple[tuple[tuple[str, int], ...], bool]:
    """The results of an instruction, and whether the last one counts only if the instruction
    selects by a mask that depends on data.
    """
    effects = effects_of_words(name, operands)
    is_condition = effects.condition or effects.condition_for_nan
    if effects.only_compares or (is_condition and not of_conditions) or not operands:
        return (), False
    target = operands[-1].partition("{")[0]
    was_vector = not _is_vector(target) and any(map(_is_vector, operands[:-1]))
    if _MOVES.match(name) and not was_vector:
        return (), False
    if _MOVES_FLOAT.match(name) and not floats_in_memory:
        return (), False
    if len(effects.reads) + len(effects.loads) < 2 and (
        _KEEPS_DIFFERENCES.match(name) or (_ADDS.match(name) and operands[0].startswith("$"))
    ):
        return (), False
    if effects.in_a_and_d:
        wide = name.endswith("q")
        return (("%rax", 8), ("%rdx", 8)) if wide else (("%eax", 4), ("%edx", 4)), False
    others = tuple((other, _width_of(other)) for other in other_targets(name, operands))
    if in_memory(target):
        width = width_of(name, operands)
        if width in (1, 2, 4, 8):
            return ((target, width),) if "%fs:" not in target else (), False
        target = operands[-2] if was_vector else ""
    width = _width_of(target)
    is_of_bits = target.startswith("%k") or (_is_vector(target) and not was_vector)
    is_selection = bool(is_of_bits and _SELECTS.fullmatch(name))
    is_recorded = width and (not is_of_bits or is_selection or _is_of_masks(name, operands))
    if not is_recorded:
        return others, False
    return (*others, (target, width)), is_selection


def floats_of(one: Instruction) -> list[tuple[str, int]]:
    """The register, or the place in memory, to which an instruction writes floating-point numbers
    that may be the same although its operands are not, and its size in bytes.

    Products are left out: they lose a difference only where they become zero or infinite. Of the
    numbers of the x87 unit, only those that it stores are found.
    """
    target = one.operands[-1].partition("{")[0] if one.operands else ""
    stored = _STORES_OF_X87.fullmatch(one.name)
    if stored and in_memory(target) and "%fs:" not in target:
        return [(target, _SCALARS[stored[1]])]
    found = _of_floats(one.name)
    if found is None or not _is_vector(target):
        return []
    return [(target, _SCALARS.get(found[1]) or _width_of(target))]


@lru_cache(maxsize=1 << 10)
def _of_floats(name: str) -> re.Match[str] | None:
    return _OF_FLOATS.fullmatch(name)


def read_as_float(one: Instruction, operand: str) -> tuple[str, int] | None:
    """The place of the floating-point number that an instruction reads from memory, and its size in
    bytes. Those of a vector that is only moved are in its register afterwards."""
    width = width_of(one.name, one.operands)
    if width in (4, 8) and any(map(_is_vector, one.operands)):
        return operand, width
    target = one.operands[-1]
    is_moved = _MOVES.match(one.name.removeprefix("v")) and "{" not in target
    return (target, width) if width and is_moved and _is_vector(target) else None


@lru_cache(maxsize=1 << 14)
def _width_of(register: str) -> int:
    """The size of a register in bytes, 0 if an operand is none that can be recorded."""
    return next((size for form, size in _WIDTHS if form.fullmatch(register)), 0)


def _is_vector(operand: str) -> bool:
    return operand.startswith("%") and "mm" in operand


def _is_of_masks(name: str, operands: tuple[str, ...]) -> bool:
    """Whether an instruction computes a vector of bits that may stand for a special case."""
    first, *others = operands
    if _COMPARES.fullmatch(name):
        return bool(_OF_EQUALITY.fullmatch(first)) and others[0] != others[1]
    if _TESTS_EQUALITY.fullmatch(name):
        return first != others[0]
    return bool(_OF_VECTORS.fullmatch(name))


def _selects_by_data(one: Instruction, state: Collection[str]) -> bool:
    """Whether all that an instruction selects by, and selects from, depends on data."""
    sources = [operand for operand in one.operands if not operand.startswith("$")]
    sources = sources[:-1] if len(sources) > _TWO else sources
    return all(set(registers(operand)) & set(state) for operand in sources)


def read_as_whole_number(one: Instruction, operand: str) -> int | None:
    """The size in bytes of a whole number that an instruction reads from memory; None if it reads
    something else."""
    width = width_of(one.name, one.operands)
    is_whole = width in (1, 2, 4, 8) and not any("mm" in other for other in one.operands)
    return width if is_whole and "%fs:" not in operand else None
