"""The registers that an instruction of x86-64 reads or writes although it does not name them, or
although its last operand is another one.
"""

from __future__ import annotations

import re
from functools import lru_cache

_READS = (
    (re.compile(r"mulx[lq]?"), ("d",)),
    (re.compile(r"cmpxchg[bwlq]?"), ("a",)),
    (re.compile(r"cmpxchg(?:8b|16b)"), ("a", "b", "c", "d")),
    (re.compile(r"v?pcmpestr[im]\w?"), ("a", "d")),
)
_EXCHANGED = {"b": "%al", "w": "%ax", "l": "%eax", "q": "%rax"}
_EXCHANGES = re.compile(r"cmpxchg([bwlq])")
_INTERSECTS = re.compile(r"vp2intersect[dq]")
_STRINGS_INDEX = re.compile(r"v?pcmp[ei]stri\w?")
_STRINGS_MASK = re.compile(r"v?pcmp[ei]strm\w?")


def implicit_reads(name: str) -> tuple[str, ...]:
    """The registers that an instruction reads without naming them."""
    return next((found for form, found in _READS if form.fullmatch(name)), ())


@lru_cache(maxsize=1 << 14)
def other_targets(name: str, operands: tuple[str, ...]) -> tuple[str, ...]:
    """The registers that an instruction writes besides its last operand, as operands."""
    if name.startswith("mulx"):
        return operands[1:2]
    if name.startswith("xadd"):
        return operands[:1]
    if found := _EXCHANGES.fullmatch(name):
        return (_EXCHANGED[found[1]],)
    if name.startswith("cmpxchg"):
        return ("%rax", "%rdx")
    if _STRINGS_INDEX.fullmatch(name):
        return ("%ecx",)
    if _STRINGS_MASK.fullmatch(name):
        return ("%xmm0",)
    if _INTERSECTS.fullmatch(name):
        return (f"%k{int(operands[-1][2]) ^ 1}",)
    return ()
