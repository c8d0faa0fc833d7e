"""Finds expressions on integers that are exact in vectors of floats.

A float can represent each integer of up to 24 bits. Therefore, `(float)(q[i] - 128) * scale` has
the same result on floats if q contains 8-bit numbers, and so has `(int8_t)roundf(x[i] / scale)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.proposers.loops.c_types import RANGES, is_whole
from tilewright.proposers.loops.functions import MATHEMATICAL, ROUNDING
from tilewright.proposers.loops.ir import (
    Binary,
    Call,
    Cast,
    Element,
    Expr,
    For,
    Negative,
    Number,
    Select,
    Var,
    walk,
)
from tilewright.proposers.loops.parsing.arithmetic import computed, fits
from tilewright.proposers.loops.parsing.scope import Interval

_EXACT = 1 << 24


class WholeNumbers:
    """The C types and ranges of expressions in one iteration of `loops`, the innermost first.

    `types` are those of variables, `arrays` those of elements. `ranges` are the known ranges of
    variables that are vectors of integers.
    """

    def __init__(
        self, loops: Sequence[For], types: Mapping[str, str], arrays: Mapping[str, str]
    ) -> None:
        self._types = types
        self._arrays = arrays
        self.cut: set[str] = set()
        """Integer variables that were converted from floats."""
        self.ranges: dict[str, Interval | None] = {
            loop.variable: (loop.first, max(loop.first, loop.last)) for loop in loops
        }

    def is_whole(self, expr: Expr) -> bool:
        """Whether an expression has an integer type."""
        if isinstance(expr, Number):
            return expr.text.isdigit()
        if isinstance(expr, Var):
            return is_whole(self._types.get(expr.name, "int"))
        if isinstance(expr, Element):
            return is_whole(self._arrays.get(expr.array, "float"))
        if isinstance(expr, Cast):
            return is_whole(expr.type)
        if isinstance(expr, Negative):
            return self.is_whole(expr.value)
        if isinstance(expr, Binary):
            compares = expr.operator not in "+-*/"
            return compares or (self.is_whole(expr.left) and self.is_whole(expr.right))
        return isinstance(expr, Select) and self.is_whole(expr.value) and self.is_whole(expr.other)

    def range_of(self, expr: Expr) -> Interval | None:
        """The smallest and largest value of an integer; None if they are not known."""
        if isinstance(expr, Number):
            return int(expr.text), int(expr.text)
        if isinstance(expr, Var):
            return self.ranges.get(expr.name) or RANGES.get(self._types.get(expr.name, ""))
        if isinstance(expr, Element):
            return RANGES[self._arrays[expr.array]]
        if isinstance(expr, Negative):
            return computed("-", (0, 0), self.range_of(expr.value))
        if isinstance(expr, Binary) and expr.operator in "+-*":
            return computed(expr.operator, self.range_of(expr.left), self.range_of(expr.right))
        if isinstance(expr, Select):
            sides = self.range_of(expr.value), self.range_of(expr.other)
            if sides[0] is None or sides[1] is None:
                return None
            return min(sides[0][0], sides[1][0]), max(sides[0][1], sides[1][1])
        if isinstance(expr, Cast):
            inner = self.range_of(expr.value) if self.is_whole(expr.value) else None
            return inner if fits(inner, expr.type) else RANGES[expr.type]
        return None

    def is_exact(self, expr: Expr) -> bool:
        """Whether all values of an integer can be represented as floats."""
        found = self.range_of(expr)
        return found is not None and found[0] >= -_EXACT and found[1] <= _EXACT

    def fits(self, expr: Expr, kind: str) -> bool:
        """Whether all values of an integer can be represented in a type."""
        return fits(self.range_of(expr), kind)

    def wraps(self, expr: Expr) -> bool:
        """Whether a part has an unsigned type whose arithmetic wraps around."""
        return any(self._type_of(part) in ("uint32_t", "uint64_t") for part in walk(expr))

    def is_double(self, expr: Expr) -> bool:
        """Whether something is computed in double precision. Functions that round are exact and do
        not count."""
        for part in walk(expr):
            if isinstance(part, Number) and not part.text.isdigit():
                if not part.text.endswith(("f", "F")):
                    return True
            elif isinstance(part, Call):
                precise = part.function in MATHEMATICAL and part.function[-1] != "f"
                if precise and part.function not in ROUNDING:
                    return True
            elif self._type_of(part) == "double":
                return True
        return False

    def has_floats(self, expr: Expr) -> bool:
        """Whether a part is a float, or an integer that was converted from one."""
        return any(
            isinstance(part, Call)
            or self._type_of(part) in ("float", "vector")
            or (isinstance(part, Number) and not part.text.isdigit())
            or (isinstance(part, Var) and part.name in self.cut)
            for part in walk(expr)
        )

    def _type_of(self, part: Expr) -> str:
        if isinstance(part, Var):
            return self._types.get(part.name, "int")
        if isinstance(part, Element):
            return self._arrays.get(part.array, "float")
        return part.type if isinstance(part, Cast) else ""
