"""Recognises sources that need not be examined, because they contain no conditions and no whole
numbers, and compute only sums and products."""

from __future__ import annotations

import re

_LOOP = re.compile(
    r"\bfor \((?:int|long|size_t|unsigned) (\w+) = ([\w\s+*/()-]*); "
    r"\1 (?:<|<=|>|>=|!=) ([\w\s+*/()-]*); (?:\1\+\+|\1--|\1 [+-]= [\w\s+*/()-]*)\)"
)
_INCLUDE = re.compile(
    r"^#include <(?:math|float|limits|string|std(?:int|def|bool))\.h>$", re.MULTILINE
)
"""Other headers may declare further names of whole numbers, such as `uint`."""
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME = re.compile(r"\b[A-Za-z_]\w*")
_CONDITION = re.compile(
    r"[<>?!|]|==|&&|%:|\b(?:if|while|do|switch|goto|for)\b|[\])]\s*\("
    r"|\b(?:un)?signed\b|\b(?:char|short|int|long|\w+_t|_?[Bb]ool|enum)\b"
    r"|\b(?:typeof|__\w+|l?l(?:rint|round)\w*|ilogb\w*|is\w+|signbit|fpclassify|memcmp)\b"
    r"|\b(?:static|const|register|auto|volatile)\s+\w+\s*[=;,\[]"
    r"|[-/\"'\\]|\b(?!kernel\b)\w+\s*\("
)
"""The texts of which every condition, every call, every whole number that may be computed from
input values, and every difference and quotient contains one. Other expressions are found too, for
instance shifts and whole numbers that are the same in all calls.
"""


def is_without_conditions(source: str) -> bool:
    """Whether a source computes only sums and products, in loops whose bounds are computed from
    constants and from the variables of other loops.
    """
    source = source if '"' in source else _COMMENT.sub(" ", source)
    loops = list(_LOOP.finditer(source))
    variables = {loop[1] for loop in loops}
    used = {name for loop in loops for part in loop.groups()[1:] for name in _NAME.findall(part)}
    rest = _INCLUDE.sub("", _LOOP.sub("", source))
    return (
        used <= variables
        and not _CONDITION.search(rest)
        and not any(_may_change(name, rest) for name in used)
    )


def _may_change(name: str, text: str) -> bool:
    """Whether a variable is declared or changed in a text."""
    changed = rf"\b{name}\s*(?:[-+*/%^&]?=|\+\+|--|,)|(?:\+\+|--|&)\s*{name}\b|\w\s+\*?{name}\b"
    return bool(re.search(changed, text)) or "#define" in text
