"""Arithmetic on affine integers, as far as C expressions of constants and loops go."""

from __future__ import annotations

from itertools import pairwise

from tilewright.proposers.rewriter.expr import Expr, Remainder, bounds, quotient, remainder
from tilewright.proposers.rewriter.ir import (
    Local,
    Text,
)
from tilewright.proposers.rewriter.lift_scope import (
    NotModelled,
    Table,
    Value,
    is_marked,
)

_WORD = 64
"""Bits of the widest integer; a shift by as many or more has no meaning in C."""


def literal(text: str) -> Value:
    """A number; text where it is no integer."""
    try:
        return Expr(int(text.rstrip("uUlL"), 8 if text.isdigit() and text[0] == "0" else 0))
    except ValueError:
        return Text(text)


def looked_up(table: Table, index: Expr) -> Value:
    """An entry of a constant array; entries at equal distances are one expression."""
    values = table.values
    if index.is_const and 0 <= index.const < len(values):
        return values[index.const]
    first = values[0]
    rows = [v.row if isinstance(v, Local) else v for v in values]
    apart = {b - a for a, b in pairwise(r for r in rows if isinstance(r, Expr))}
    if len(apart) == 1 and all(isinstance(r, Expr) for r in rows):
        offset = arithmetic("*", index, apart.pop())
        if isinstance(first, Expr):
            return first + offset
        kinds = {(v.space, v.flags) for v in values if isinstance(v, Local)}
        if isinstance(first, Local) and len(kinds) == 1:
            return Local(first.space, first.row + offset, first.flags)
    raise NotModelled("entry of a table whose entries are not evenly spaced")


def arithmetic(operator: str, left: Expr, right: Expr) -> Expr:
    """Two integers combined; `NotModelled` where the result is not affine."""
    match operator:
        case "+":
            return left + right
        case "-" if left == Expr(1) and is_bit(right):
            return flipped(right)
        case "-":
            return left - right
        case "*" if right.is_const:
            return left * right.const
        case "*" if left.is_const:
            return right * left.const
        case "/" if right.is_const and right.const > 0:
            return quotient(left, right.const)
        case "%" if right.is_const and right.const > 0:
            return remainder(left, right.const)
        case "<<" if right.is_const and 0 <= right.const < _WORD:
            return left * (1 << right.const)
        case ">>" if right.is_const and 0 <= right.const < _WORD:
            return quotient(left, 1 << right.const)
        case "&" if right.is_const and right.const > 0 and (right.const + 1) & right.const == 0:
            return remainder(left, right.const + 1)
        case "^" if right == Expr(1) and is_bit(left):
            return flipped(left)
    raise NotModelled(f"operator {operator} that is not affine")


def is_bit(expr: Expr) -> bool:
    """Whether a value is 0 or 1; one at the head of an unknown iteration may turn out to be."""
    if expr in (Expr(0), Expr(1)):
        return True
    low, high = bounds(expr, {})
    return (low >= 0 and high <= 1) or is_marked(expr)


def flipped(bit: Expr) -> Expr:
    """1 for 0, and 0 for 1."""
    atom = bit.terms[0][0] if bit.terms else None
    if isinstance(atom, Remainder) and bit == remainder(atom.of, 2):
        return remainder(atom.of + 1, 2)
    return Expr(1) - bit
