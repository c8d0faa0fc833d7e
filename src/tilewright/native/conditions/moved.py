"""Finds which conditions of a kernel change if its arrays move, although its inputs stay the same.

A comparison of two addresses in the same array has the same difference wherever the array lies, and
so has a loop over an array that ends at its last address. Everything else that changes depends on
addresses, also on those that the kernel has stored in an array or a struct and read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tilewright.native.conditions.effects import in_memory
from tilewright.native.conditions.facts import Site
from tilewright.native.conditions.listing import Instruction, Listing

_WIDTHS = {"b": 1, "w": 2, "l": 4, "q": 8}
_COMPARES = re.compile(r"cmp([bwlq])")
_TESTS = re.compile(r"test([bwlq])")
_SETS_FLAGS = re.compile(r"(?:sub|and|shr|sar)([lq])")
_CONVERTS = re.compile(r"cvtsi2s[sd]([lq])")
_USES_FLAGS = re.compile(r"j(?!mp)\w+|set\w+|cmov\w+")
_WHOLE = re.compile(r"(?:mov|add|sub|xor|and|or|cmp|xchg|imul)q")
_OWN_PLACE = re.compile(r"-\d+\(%rbp\)|\d*\(%rsp\)")
_HIGH = re.compile(r"%[abcd]h")


def compared(listing: Listing) -> list[Site]:
    """What the conditions of a kernel's own lines, and its conversions to floats, are computed
    from: the differences of comparisons, and the tested bits.

    Nothing if the kernel reads no whole number of 64 bits, as an address is, from memory other than
    a variable on the stack.
    """
    if not any(map(_may_read_an_address, listing.code())):
        return []
    return [site for function in listing.functions.values() for site in _of(function.code)]


def _may_read_an_address(one: Instruction) -> bool:
    if not one.line or not _WHOLE.fullmatch(one.name):
        return False
    return any(
        in_memory(operand) and not _OWN_PLACE.fullmatch(operand)
        for operand in (one.operands if one.name == "cmpq" else one.operands[:1])
    ) and not any("mm" in operand for operand in one.operands)


def _of(code: Iterable[Instruction]) -> Iterator[Site]:
    before: Instruction | None = None
    for one in code:
        if before is not None and before.line and _USES_FLAGS.fullmatch(one.name):
            site = _result(before)
            if site is not None:
                yield site
        before = one
        if not one.line or any(map(_HIGH.search, one.operands)):
            continue
        compares, tests = _COMPARES.fullmatch(one.name), _TESTS.fullmatch(one.name)
        converts = _CONVERTS.fullmatch(one.name)
        if compares:
            yield _with(one, "sub", _WIDTHS[compares[1]])
        elif tests and (one.operands[0] != one.operands[1] or tests[1] != "q"):
            # Of a whole address, only whether it is zero may be tested.
            yield _with(one, "and", _WIDTHS[tests[1]])
        elif converts:
            yield Site(one, value=(one.operands[0], _WIDTHS[converts[1]]), is_load=True)


def _with(one: Instruction, does: str, width: int) -> Site:
    """What is computed from both operands of a comparison, of which one may be the register that
    the recording code uses."""
    first, last = one.operands
    if re.search(r"%[re]?a[xl]\b", first):
        first, last = last, first
    if last.startswith("$"):
        first, last = last, first
    return Site(one, value=(last, width), is_load=True, other=(does, first))


def _result(one: Instruction) -> Site | None:
    sets = _SETS_FLAGS.fullmatch(one.name)
    if sets is None or not one.operands[-1].startswith("%") or "%rsp" in one.operands:
        return None
    return Site(one, value=(one.operands[-1], _WIDTHS[sets[1]]), is_load=True, is_result=True)
