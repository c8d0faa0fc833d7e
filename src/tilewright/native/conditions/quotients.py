"""Finds the signs that a compiler computes only to divide an integer by a constant.

It computes `x / 9` as the upper half of a product of x, minus the sign of x, which is -1 or 0. If x
is never negative, the sign is always 0. It is no special case if nothing else reads it, and nothing
reads x afterwards. The quotient is recorded. If x itself were read, the kernel could compute the
remainder, whose sign is that of x; everything that it computes from another copy of x is recorded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from tilewright.native.conditions.blocks import Block
from tilewright.native.conditions.effects import KEPT, effects_of, in_memory, registers
from tilewright.native.conditions.listing import Function, Instruction

_COPY = re.compile(r"mov(?:l|q|slq) %\w+ %\w+")
_SIGN = re.compile(r"sarl \$31 %\w+")
_PRODUCT = re.compile(r"imulq \$-?\d+ %\w+ %\w+")
_KEEPS_PRODUCT = re.compile(r"s[ah]r[lq] (?:\$\d+ )?%\w+|addl %\w+ %\w+")
"""A product is shifted and, if the constant has 32 bits, added to the number itself."""
_DIFFERENCE = re.compile(r"subl %\w+ %\w+")
_POPS = re.compile("pop[wlq]?")
_GENERAL = ("a", "b", "c", "d", "si", "di", "bp", *map(str, range(8, 16)))
_GIVEN = ("a", "c", "d", "si", "di", "8", "9")


def signs_of_quotients(
    function: Function, blocks: Sequence[Block], results: Collection[str] = ("a", "d")
) -> frozenset[int]:
    """The positions of the instructions that compute such signs. The function returns what is in
    the registers `results`."""
    if function.jumps_anywhere:
        return frozenset()
    found = set()
    for number, block in enumerate(blocks):
        for at in block.code:
            one = function.code[at]
            if not _DIFFERENCE.fullmatch(_text(one)):
                continue
            first, second = (registers(operand)[0] for operand in one.operands)
            for sign, product in ((first, second), (second, first)):
                place = _sign_of(function, block, at, sign, product)
                if place is not None and not _is_known(
                    function, blocks, number, (place, at), sign, results
                ):
                    found.add(place)
    return frozenset(found)


def _text(one: Instruction) -> str:
    return " ".join((one.name, *one.operands))


def _sign_of(function: Function, block: Block, at: int, sign: str, product: str) -> int | None:
    """Where the sign in a register is computed, if another register contains a product of the same
    number with a constant at a position."""
    place = _written(function, block, at, sign)
    if place is None or not _SIGN.fullmatch(_text(function.code[place])):
        return None
    number = _origin(function, block, place, sign)
    before: int | None = at
    while before is not None:
        before = _written(function, block, before, product)
        if before is None:
            return None
        one = function.code[before]
        if _PRODUCT.fullmatch(_text(one)):
            factor = registers(one.operands[1])[0]
            return place if _origin(function, block, before, factor) == number else None
        if not _KEEPS_PRODUCT.fullmatch(_text(one)):
            return None
        is_added = one.name == "addl"
        if is_added and _origin(function, block, before, registers(one.operands[0])[0]) != number:
            return None
    return None


def _written(function: Function, block: Block, before: int, register: str) -> int | None:
    """The last position of a block before another one where a register may be written."""
    for at in range(before - 1, block.code.start - 1, -1):
        one, effects = function.code[at], effects_of(function.code[at])
        if not one.operands:  # the sign is extended, for instance
            if one.name != "cltq" or register == "a":
                return at
        elif effects.in_a_and_d:
            if register in ("a", "d"):
                return at
        elif (
            not effects.is_plain
            or one.name.startswith(("xchg", "xadd", "cmpxchg", "mulx"))
            or (_is_target(one, register) and not effects.only_compares)
        ):
            return at
    return None


def _origin(function: Function, block: Block, before: int, register: str) -> tuple[str, int | None]:
    """The register that first contained the number in a register, and where it was written; None
    for a number from before the block. Two numbers of the same origin are the same."""
    at = _written(function, block, before, register)
    while at is not None:
        one = function.code[at]
        if _COPY.fullmatch(_text(one)):
            register = registers(one.operands[0])[0]
        elif one.name != "cltq":
            break
        at = _written(function, block, at, register)
    return register, at


def _is_known(
    function: Function,
    blocks: Sequence[Block],
    number: int,
    places: tuple[int, int],
    sign: str,
    results: Collection[str],
) -> bool:
    """Whether anything but a difference reads a sign, or reads the number that it is the sign of
    after the difference; `places` are those of the sign and of the difference."""
    place, difference = places
    block = blocks[number]
    if _is_read(function, blocks, number, place + 1, sign, results, besides=difference):
        return True
    origin = _origin(function, block, place, sign)
    return any(
        _origin(function, block, difference + 1, name) == origin
        and _is_read(function, blocks, number, difference + 1, name, results)
        for name in _GENERAL
    )


def _is_read(
    function: Function,
    blocks: Sequence[Block],
    number: int,
    begin: int,
    register: str,
    results: Collection[str],
    besides: int | None = None,
) -> bool:
    """Whether a register may be read, before it is written again, in a block from a position on, or
    in the blocks after it."""
    open_ = [(number, begin)]
    seen = set()
    while open_:
        block, first = open_.pop()
        for at in range(first, blocks[block].code.stop):
            one = function.code[at]
            is_read, is_written = _uses(one, register, results)
            if at == besides:
                is_read, is_written = False, _is_target(one, register)
            if is_read:
                return True
            if is_written:
                break
        else:
            for after in blocks[block].after:
                if after not in seen:
                    seen.add(after)
                    open_.append((after, blocks[after].code.start))
    return False


def _uses(one: Instruction, register: str, results: Collection[str]) -> tuple[bool, bool]:
    """Whether an instruction may read a register, and whether it only writes it."""
    effects = effects_of(one)
    if one.name.startswith(("call", "jmp")) and not (one.operands or ("",))[0].startswith(".L"):
        return register in _GIVEN or one.operands[:1] == (f"*%r{register}",), register not in KEPT
    if one.name.startswith("ret"):
        return register in results, True
    if not one.operands:
        return register in _GIVEN, False
    if _POPS.fullmatch(one.name):
        return False, _is_target(one, register)
    addressed = {
        name for operand in one.operands if in_memory(operand) for name in registers(operand)
    }
    is_read = register in effects.reads or register in addressed
    is_written = effects.is_plain and _is_target(one, register)
    return is_read, is_written and not (is_read or effects.only_compares)


def _is_target(one: Instruction, register: str) -> bool:
    target = one.operands[-1]
    return not in_memory(target) and registers(target)[:1] == (register,)
