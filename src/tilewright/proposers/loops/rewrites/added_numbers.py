"""Finds a number that a kernel adds to each element of an 8-bit input, such as its zero point.

`(int32_t)a[i] - 128` and `a[i] - 128` add -128 to elements of a.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.proposers.loops.c_types import RANGES
from tilewright.proposers.loops.ir import (
    Binary,
    Cast,
    Element,
    Expr,
    Number,
    Parameter,
    Statement,
    Type,
    expressions,
)
from tilewright.proposers.loops.parsing.arithmetic import fits

WIDER: Mapping[str, Type] = {"int8_t": "int16_t", "uint8_t": "int16_t"}
"""For each narrow type, the wider type of the copy that is used in products."""
_SIGNED = ("int16_t", "int", "int32_t", "int64_t")
"""Signed types that can represent all 8-bit numbers."""


def added_to(expr: Expr) -> int | None:
    """The number that an expression adds to an element; None for other expressions.

    The element may be converted to a signed type that can represent all its values.
    """
    if not isinstance(expr, Binary) or expr.operator not in ("+", "-"):
        return None
    left, right = expr.left, expr.right
    if isinstance(left, Cast):
        left = left.value if left.type in _SIGNED else left
    if not isinstance(left, Element) or not isinstance(right, Number) or not right.text.isdigit():
        return None
    return int(right.text) if expr.operator == "+" else -int(right.text)


def array_of(expr: Expr) -> str:
    """The array to whose element an expression adds a number."""
    assert isinstance(expr, Binary)
    element = expr.left.value if isinstance(expr.left, Cast) else expr.left
    assert isinstance(element, Element)
    return element.array


def common_number(given: Parameter, body: Sequence[Statement], kind: Type) -> int:
    """The number that each use of an input adds to its element.

    It is 0 if the uses differ, or if a sum may not be representable in `kind`, the type of the copy
    that contains the sums.
    """
    if kind == given.type or given.type not in WIDER:
        return 0
    used = [*expressions(tuple(body))]
    uses = sum(isinstance(e, Element) and e.array == given.name for e in used)
    added = [n for e in used if (n := added_to(e)) is not None and array_of(e) == given.name]
    if len(added) != uses or len({*added}) != 1:
        return 0
    least, most = RANGES[given.type]
    return added[0] if fits((least + added[0], most + added[0]), kind) else 0
