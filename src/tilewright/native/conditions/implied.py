"""Finds conditions that an earlier condition on the same flags implies.

If a jump on "below or equal" was taken, and no instruction has written the flags since, "above" is
false for all inputs. A compiler leaves such a condition where two expressions of the source ask the
same. The code for its other result can never run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tilewright.native.conditions.blocks import Block
from tilewright.native.conditions.effects import effects_of
from tilewright.native.conditions.listing import Function, Instruction

_CLEARS_CARRY = re.compile(r"(?:test|and|or|xor)[bwlq]?")
_COMPARES_FLOATS = re.compile(r"v?u?comis[sd]")
_C, _P, _Z, _S, _O = (1 << n for n in range(5))
_TESTS: dict[str, Callable[[int], bool]] = {
    "o": lambda f: bool(f & _O),
    "b": lambda f: bool(f & _C),
    "e": lambda f: bool(f & _Z),
    "be": lambda f: bool(f & (_C | _Z)),
    "s": lambda f: bool(f & _S),
    "p": lambda f: bool(f & _P),
    "l": lambda f: bool(f & _S) != bool(f & _O),
    "le": lambda f: bool(f & _Z) or bool(f & _S) != bool(f & _O),
}
_OPPOSITES = {
    "no": "o",
    "ae": "b",
    "ne": "e",
    "a": "be",
    "ns": "s",
    "np": "p",
    "ge": "l",
    "g": "le",
}
_OTHER_NAMES = {
    "c": "b", "nae": "b", "nc": "ae", "nb": "ae", "z": "e", "nz": "ne", "na": "be", "nbe": "a",
    "pe": "p", "po": "np", "nge": "l", "nl": "ge", "ng": "le", "nle": "g",
}  # fmt: skip


def _flags_where(holds: Callable[[int], bool]) -> int:
    """The combinations of flags for which something holds, as the bits of a number."""
    return sum(1 << flags for flags in range(32) if holds(flags))


_ALL = _flags_where(lambda _: True)
_TRUE = {name: _flags_where(test) for name, test in _TESTS.items()}
_TRUE |= {name: _ALL & ~_TRUE[other] for name, other in _OPPOSITES.items()}
_TRUE |= {name: _TRUE[other] for name, other in _OTHER_NAMES.items()}
_WITHOUT_CARRY = _flags_where(lambda f: not f & (_C | _O))
_OF_FLOATS = _flags_where(lambda f: f in (0, _C, _Z, _C | _P | _Z))


def implied(function: Function, blocks: Sequence[Block]) -> frozenset[int]:
    """The positions of conditions whose result is known from the conditions before them."""
    if function.jumps_anywhere:
        return frozenset()
    possible = [0] * len(blocks)
    possible[0] = _ALL
    found: set[int] = set()
    open_ = [0]
    while open_:
        n = open_.pop()
        flags = possible[n]
        for at in blocks[n].code:
            one = function.code[at]
            true = _true(one)
            is_known = true is not None and not (flags & true and flags & ~true)
            (found.add if is_known else found.discard)(at)
            flags = _after(one, flags)
        ways = [flags] * len(blocks[n].after)
        last = function.code[blocks[n].code[-1]]
        true = _true(last) if effects_of(last).is_branch else None
        if true is not None and len(ways) > 1:
            ways = [flags & true, flags & ~true]
        for other, way in zip(blocks[n].after, ways, strict=True):
            if way & ~possible[other]:
                possible[other] |= way
                open_.append(other)
    return frozenset(found)


def _true(one: Instruction) -> int | None:
    """The combinations of flags with which an instruction's condition is true; None without one."""
    effects = effects_of(one)
    return _TRUE.get(effects.condition or effects.condition_for_nan or "")


def _after(one: Instruction, flags: int) -> int:
    """The combinations of flags that are possible after an instruction."""
    if _CLEARS_CARRY.fullmatch(one.name):
        return _WITHOUT_CARRY
    if _COMPARES_FLOATS.fullmatch(one.name):
        return _OF_FLOATS
    return _ALL if effects_of(one).may_set_flags else flags
