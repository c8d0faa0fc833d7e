"""Arithmetic on constants of type float and double, such as `1.0f / 64` for a scale."""

from __future__ import annotations

import math
import operator as operators
import re
import struct

from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import Text
from tilewright.proposers.rewriter.lifting.symbolic_values import Value

_NUMBER = re.compile(r"(-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([fF]?)")
_OPERATORS = {
    "+": operators.add,
    "-": operators.sub,
    "*": operators.mul,
    "/": operators.truediv,
}


def folded(operator: str, left: Value, right: Value) -> Text | None:
    """`left operator right` if one of them is a floating-point constant and the other a constant;
    None otherwise, and if the result is not finite.

    As in C, the type is float unless a constant is a double. A sum, product or quotient of two
    floats that is first rounded to double is the same float as when it is rounded once.
    """
    values = [_constant(left), _constant(right)]
    known = [v for v in values if v is not None]
    if len(known) < 2 or operator not in _OPERATORS or all(wide is None for _, wide in known):
        return None
    wide = any(one for _, one in known)
    first, second = (value if wide else _as_float(value) for value, _ in known)
    if operator == "/" and second == 0:
        return None
    result = _OPERATORS[operator](first, second)
    result = result if wide else _as_float(result)
    return Text(f"{result!r}{'' if wide else 'f'}") if math.isfinite(result) else None


def _constant(value: Value) -> tuple[float, bool | None] | None:
    """The value of a constant, and whether it is a double; None in place of this for an integer."""
    if isinstance(value, Expr) and value.is_const and abs(value.const) < 1 << 53:
        return float(value.const), None
    found = _NUMBER.fullmatch(value.text) if isinstance(value, Text) else None
    return (float(found[1]), not found[2]) if found else None


def _as_float(value: float) -> float:
    """A number rounded to single precision; infinite if it is too large."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.inf
