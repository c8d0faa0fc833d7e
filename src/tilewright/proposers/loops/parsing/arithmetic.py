"""Arithmetic on values during parsing: types, ranges, literals."""

from __future__ import annotations

import math
import operator
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tree_sitter import Node

from tilewright.proposers.c.syntax import text_of
from tilewright.proposers.loops.analysis.linear import linear, sum_of
from tilewright.proposers.loops.c_types import RANGES, common, is_whole, promoted
from tilewright.proposers.loops.ir import (
    Binary,
    Cast,
    Expr,
    Negative,
    Number,
    Type,
    Var,
    changed,
    walk,
)
from tilewright.proposers.loops.parsing.scope import Interval, Value, number
from tilewright.proposers.loops.parsing.syntax import UnsupportedError

_FLOAT = re.compile(r"(?:(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)[fF]?")
_WHOLE = re.compile(r"(0[xX][0-9a-fA-F]+|0|[1-9]\d*)([uU]?[lL]{0,2}|[lL]{1,2}[uU])")
_EXACT = 7
"""Integers with fewer digits are exact as floats."""
_LONGEST = 80
"""Maximum number of characters of an integer literal; C has none of more than 64 bits."""
_ORDER = ("<", "<=", ">", ">=")
_COMPARISONS = (*_ORDER, "==", "!=")
POINTER_OPERATORS = (*_COMPARISONS, "-")
"""Operators between two pointers."""
_WHOLE_ONLY = ("%", "<<", ">>", "&", "|", "^")
OPERATORS = ("+", "-", "*", "/", "&&", "||", *_COMPARISONS, *_WHOLE_ONLY)


_CONSTANT: Mapping[str, Callable[..., int]] = {
    "/": operator.floordiv, "%": operator.mod, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne, "&&": lambda a, b: bool(a and b), "||": lambda a, b: bool(a or b),
}  # fmt: skip


_OF_DOUBLES: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip


def printed(value: Value) -> Expr:
    """A value as a part of a larger expression. An integer that is followed keeps its type
    there."""
    return Cast(value.type, value.expr) if value.retyped else value.expr


SYMBOL = "?"
"""The beginning of names that represent values about which nothing is known, not even their
range."""


def is_symbol(expr: Expr) -> bool:
    """Whether an expression represents such a value."""
    return isinstance(expr, Var) and expr.name.startswith(SYMBOL)


def converted(node: Node, value: Value, kind: Type) -> Value:
    """A value converted to another type."""
    if value.interval is not None and is_whole(kind):
        if not fits(value.interval, kind):
            raise UnsupportedError(node, f"{text_of(node)!r} does not fit the type {kind}")
        return replace(value, type=kind, retyped=kind != "int")
    if value.type == kind:
        return value
    expr = printed(value)
    return Value(truth(expr) if kind == "_Bool" else Cast(kind, expr), kind)


def truth(expr: Expr) -> Expr:
    """Whether an expression is not zero, as C converts it to bool."""
    if isinstance(expr, Binary) and expr.operator in (*_COMPARISONS, "&&", "||"):
        return expr
    return Binary("!=", expr, Number("0"))


def combined(
    node: Node,
    sign: str,
    left: Value,
    right: Value,
    narrow: Callable[[Value], Value] = lambda value: value,
) -> Value:
    """The value of an operation. It is an int if all its parts have known ranges.

    `narrow` gives a followed integer the range that it has where it is computed.
    """
    kind = common(left.type, right.type)
    if sign in _COMPARISONS and not is_whole(kind):
        ends = _number_of(left.expr), _number_of(right.expr)
        if ends[0] is not None and ends[1] is not None:
            return number(int(_CONSTANT[sign](*ends)))
    if sign in _WHOLE_ONLY and not is_whole(kind):
        raise UnsupportedError(node, f"the operator {sign} is for integers")
    if sign in ("<<", ">>"):
        kind = promoted(left.type)
    wraps = sign in _ORDER and _wraps(left, right)
    known = None if wraps else computed(sign, left.interval, right.interval)
    if sign in (*_COMPARISONS, "&&", "||"):
        kind = "int"
    if known is not None and is_whole(kind):
        known = narrow(Value(Binary(sign, left.expr, right.expr), kind, known)).interval
        assert known is not None
        if not fits(known, kind) or not fits(known, "int"):
            raise UnsupportedError(node, f"{text_of(node)!r} leaves the range of its type")
        retyped = kind != "int" and (left.retyped or right.retyped)
        if known[0] == known[1] and not any(
            isinstance(e, Var) for side in (left, right) for e in walk(side.expr)
        ):
            return replace(number(known[0]), type=kind, retyped=retyped)
        return Value(Binary(sign, left.expr, right.expr), kind, known, retyped)
    return Value(Binary(sign, printed(left), printed(right)), kind)


def _number_of(expr: Expr) -> float | None:
    """The value of a literal; None if it is too large for a float, or not a literal."""
    if isinstance(expr, Negative):
        value = _number_of(expr.value)
        return None if value is None else -value
    if not isinstance(expr, Number):
        return None
    if not _FLOAT.fullmatch(expr.text):
        return float(expr.text) if expr.text.isdigit() and len(expr.text) < _EXACT else None
    if expr.text[-1] not in "fF":
        return float(expr.text)
    try:
        return float(struct.unpack("f", struct.pack("f", float(expr.text[:-1])))[0])
    except OverflowError:
        return None


def literal_of(expr: Expr, kind: Type) -> Expr | None:
    """The float or double to which C converts an expression of integer and double literals.

    None if the expression contains anything else, or if its value is not finite or, as a float, too
    small to be written exactly.
    """
    value = _double_of(expr)
    if value is None:
        return None
    try:
        rounded = struct.unpack("f", struct.pack("f", value))[0] if kind == "float" else value
    except OverflowError:
        return None
    if not math.isfinite(rounded) or (rounded == 0) != (value == 0):
        return None
    literal = Number(repr(abs(rounded)) + ("f" if kind == "float" else ""))
    return Negative(literal) if math.copysign(1, rounded) < 0 else literal


def _double_of(expr: Expr) -> float | None:
    """The value of an expression that C computes in double; None if it contains floats."""
    if isinstance(expr, Number):
        text = expr.text
        return (
            float(text)
            if text.isdigit() or (_FLOAT.fullmatch(text) and text[-1] not in "fF")
            else None
        )
    if isinstance(expr, Negative):
        value = _double_of(expr.value)
        return None if value is None else -value
    if not isinstance(expr, Binary) or expr.operator not in _OF_DOUBLES:
        return None
    if all(isinstance(e, Number) and e.text.isdigit() for e in (expr.left, expr.right)):
        return None
    left, right = _double_of(expr.left), _double_of(expr.right)
    if left is None or right is None or (expr.operator == "/" and right == 0):
        return None
    return _OF_DOUBLES[expr.operator](left, right)


def computed(sign: str, left: Interval | None, right: Interval | None) -> Interval | None:
    """The smallest and largest value of an integer operation; None if it is not followed."""
    if left is None or right is None:
        return None
    if sign == "+":
        return left[0] + right[0], left[1] + right[1]
    if sign == "-":
        return left[0] - right[1], left[1] - right[0]
    if sign == "*":
        corners = [a * b for a in left for b in right]
        return min(corners), max(corners)
    if left[0] == left[1] and right[0] == right[1]:
        return _constant(sign, left[0], right[0])
    positive = left[0] >= 0 and right[0] > 0
    if sign == "/" and positive:
        return left[0] // right[1], left[1] // right[0]
    if sign == "%" and positive:
        return 0, min(left[1], right[1] - 1)
    if sign == "&" and max(left[0], right[0]) >= 0:  # as many bits as the one that is not negative
        return 0, min(end[1] for end in (left, right) if end[0] >= 0)
    if sign == ">>" and right[0] >= 0 and (positive or right[0] == right[1]):
        return left[0] >> right[left[0] >= 0], left[1] >> right[0]
    return None


def _constant(sign: str, left: int, right: int) -> Interval | None:
    if sign in ("/", "%") and (left < 0 or right <= 0):
        return None
    if sign in ("<<", ">>") and (left < 0 or not 0 <= right < 32):
        return None
    found = int(_CONSTANT[sign](left, right))
    return found, found


def _wraps(left: Value, right: Value) -> bool:
    """Whether an operation may convert a negative operand to a large unsigned number."""
    if not common(left.type, right.type).startswith("u"):
        return False
    return any(v.interval is not None and v.interval[0] < 0 for v in (left, right))


def decided(sign: str, left: Value, right: Value) -> bool | None:
    """Whether a comparison is true or false for all values in the ranges of its operands; None if
    neither."""
    if left.interval is None or right.interval is None or sign not in _ORDER:
        return None
    if _wraps(left, right) or any(is_symbol(e) for side in (left, right) for e in walk(side.expr)):
        return None
    if sign[0] == ">":
        return decided(sign.replace(">", "<"), right, left)
    (least, most), (low, high) = left.interval, right.interval
    if most < low or (sign == "<=" and most == low):
        return True
    return False if least > high or (sign == "<" and least == high) else None


def smaller_or_larger(test: Expr, value: Value, other: Value) -> Value | None:
    """The result of `a < b ? a : b` or another minimum or maximum, if the ranges decide it."""
    if not isinstance(test, Binary) or test.operator not in _ORDER:
        return None
    sides = (printed(value), printed(other))
    if sides not in ((test.left, test.right), (test.right, test.left)):
        return None
    smaller = (test.operator[0] == "<") == (test.left == sides[0])
    first = decided("<=" if smaller else ">=", value, other)
    return None if first is None else value if first else other


def needless_choice(test: Expr, value: Value, other: Value) -> bool:
    """Whether two integers are equal where a test is false, as in `x != 3 ? x - 3 : 0`."""
    if not is_whole(value.type) or not is_whole(other.type):
        return False
    left, right = test, Number("0")
    if isinstance(test, Binary) and test.operator in ("!=", "^") and isinstance(test.right, Number):
        left, right = test.left, test.right
    difference = Binary("-", value.expr, other.expr)
    terms, offset = linear(changed(difference, _without_widening))
    factor = terms.pop(_without_widening(left), 0)
    return right.text.isdigit() and not terms and offset == -factor * int(right.text)


def _without_widening(expr: Expr) -> Expr:
    return expr.value if isinstance(expr, Cast) and expr.type in ("int", "int32_t") else expr


def fits(interval: Interval | None, kind: str) -> bool:
    """Whether all values of a range are values of a type."""
    least, most = RANGES[kind]
    return interval is not None and least <= interval[0] and interval[1] <= most


def within(interval: Interval | None, size: int) -> bool:
    """Whether all values of a range are valid subscripts for this number of elements."""
    return interval is not None and interval[0] >= 0 and interval[1] < size


def in_rows(
    subscripts: Sequence[Expr], sizes: Sequence[int], interval_of: Callable[[Expr], Interval | None]
) -> tuple[Expr, ...] | None:
    """The subscripts of the element that is meant if the last subscript goes beyond the end of a
    row.

    `&t[0][0]` can be read from end to end in this way. None if the element is not known.
    """
    if len(subscripts) != len(sizes):
        return None
    flat: dict[Expr, int] = {}
    offset, size = 0, 1
    for subscript, length in zip(reversed(subscripts), reversed(sizes), strict=True):
        terms, added = linear(subscript)
        for term, factor in terms.items():
            flat[term] = flat.get(term, 0) + factor * size
        offset, size = offset + added * size, size * length
    found: list[Expr] = []
    for length in sizes:
        size //= length
        here = {t: f // size for t, f in flat.items() if f % size == 0}
        flat = {t: f for t, f in flat.items() if f % size}
        rest = _bounds(flat, interval_of)
        if rest is None:
            return None
        least = offset + rest[0]
        row = least // size  # the rest begins in this row and must also end in it
        if rest[1] - rest[0] >= size - least % size:
            return None
        offset -= row * size
        whole = _bounds(here, interval_of)
        if whole is None or whole[0] + row < 0 or whole[1] + row >= length:
            return None
        found.append(sum_of(here, row))
    return tuple(found) if offset == 0 else None


def _bounds(
    terms: Mapping[Expr, int], interval_of: Callable[[Expr], Interval | None]
) -> Interval | None:
    """The smallest and largest value of a sum of multiples."""
    least = most = 0
    for term, factor in terms.items():
        interval = interval_of(term)
        if interval is None:
            return None
        ends = sorted(end * factor for end in interval)
        least, most = least + ends[0], most + ends[1]
    return least, most


def literal_value(node: Node) -> Value:
    """The value of a literal."""
    text = text_of(node)
    negative, text = text.startswith("-"), text.removeprefix("-")
    if _FLOAT.fullmatch(text):
        literal = Number(text)
        kind: Type = "float" if text[-1] in "fF" else "double"
        return Value(Negative(literal) if negative else literal, kind)
    found = _WHOLE.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or (value := int(found[1], 0)) > RANGES["uint64_t"][1]:
        raise UnsupportedError(node, f"the number {text_of(node)[:_LONGEST]!r} is not supported")
    suffix = found[2].lower()
    kinds: tuple[Type, ...] = ("int", "uint32_t", "int64_t", "uint64_t")
    if "u" in suffix:
        kinds = ("uint32_t", "uint64_t")
    elif not text.lower().startswith("0x"):
        kinds = ("int", "int64_t")
    if "l" in suffix:
        kinds = tuple(k for k in kinds if k.endswith("64_t"))
    kind = next((k for k in kinds if value <= RANGES[k][1]), "uint64_t")
    if not fits((value, value), "int"):
        ends = {"uint32_t": "u", "int64_t": "ll", "uint64_t": "ull"}[kind]
        literal = Number(f"{value}{ends}")
        return Value(Negative(literal) if negative else literal, kind)
    value = -value if negative else value
    if negative and "u" in suffix:
        raise UnsupportedError(node, f"the number {text_of(node)!r} wraps around")
    return replace(number(value), type=kind, retyped=kind != "int")
