"""Arithmetic on values while they are read: types, ranges, literals."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from tree_sitter import Node

from tilewright.proposers.c.syntax import text_of
from tilewright.proposers.loops.c_types import RANGES, common, is_whole, promoted
from tilewright.proposers.loops.ir import Binary, Cast, Expr, Negative, Number, Type, Var, walk
from tilewright.proposers.loops.parse_syntax import UnsupportedError
from tilewright.proposers.loops.scope import Interval, Value, number

_FLOAT = re.compile(r"(?:(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)[fF]?")
_WHOLE = re.compile(r"(0[xX][0-9a-fA-F]+|0|[1-9]\d*)([uU]?[lL]{0,2}|[lL]{1,2}[uU])")
_LONGEST = 80
"""Characters of a whole number; C has none of more than 64 bits."""
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_WHOLE_ONLY = ("%", "<<", ">>", "&", "|", "^")
OPERATORS = ("+", "-", "*", "/", "&&", "||", *_COMPARISONS, *_WHOLE_ONLY)


_CONSTANT: Mapping[str, Callable[[int, int], int]] = {
    "/": operator.floordiv, "%": operator.mod, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne, "&&": lambda a, b: bool(a and b), "||": lambda a, b: bool(a or b),
}  # fmt: skip


def printed(value: Value) -> Expr:
    """A value as it stands beside others; numbers that are followed keep their type there."""
    return Cast(value.type, value.expr) if value.retyped else value.expr


def converted(node: Node, value: Value, kind: Type) -> Value:
    """A value as one of another type."""
    if value.interval is not None and is_whole(kind):
        if not fits(value.interval, kind):
            raise UnsupportedError(node, f"{text_of(node)!r} does not fit the type {kind}")
        return replace(value, type=kind, retyped=kind != "int")
    return value if value.type == kind else Value(Cast(kind, printed(value)), kind)


def combined(node: Node, sign: str, left: Value, right: Value) -> Value:
    """The value of an operation, as an int where all its parts are in a known range."""
    kind = common(left.type, right.type)
    if sign in _WHOLE_ONLY and not is_whole(kind):
        raise UnsupportedError(node, f"the operator {sign} is for whole numbers")
    if sign in ("<<", ">>"):
        kind = promoted(left.type)
    known = computed(sign, left.interval, right.interval)
    if sign in (*_COMPARISONS, "&&", "||"):
        kind = "int"
    if known is not None and is_whole(kind):
        if not fits(known, kind) or not fits(known, "int"):
            raise UnsupportedError(node, f"{text_of(node)!r} leaves the range of its type")
        retyped = kind != "int" and (left.retyped or right.retyped)
        if known[0] == known[1] and not any(
            isinstance(e, Var) for side in (left, right) for e in walk(side.expr)
        ):
            return replace(number(known[0]), type=kind, retyped=retyped)
        return Value(Binary(sign, left.expr, right.expr), kind, known, retyped)
    return Value(Binary(sign, printed(left), printed(right)), kind)


def computed(sign: str, left: Interval | None, right: Interval | None) -> Interval | None:
    """Least and greatest value of an operation on whole numbers, None where it is not followed."""
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
    if sign == ">>" and positive:
        return left[0] >> right[1], left[1] >> right[0]
    return None


def _constant(sign: str, left: int, right: int) -> Interval | None:
    if sign in ("/", "%") and (left < 0 or right <= 0):
        return None
    if sign in ("<<", ">>") and (left < 0 or not 0 <= right < 32):
        return None
    found = int(_CONSTANT[sign](left, right))
    return found, found


def fits(interval: Interval | None, kind: str) -> bool:
    """Whether all values of a range are of a type."""
    least, most = RANGES[kind]
    return interval is not None and least <= interval[0] and interval[1] <= most


def within(interval: Interval | None, size: int) -> bool:
    """Whether all values of a range are subscripts of so many elements."""
    return interval is not None and interval[0] >= 0 and interval[1] < size


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
