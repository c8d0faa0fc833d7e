"""Arithmetic on affine integers, as C expressions of constants and loop variables need it."""

from __future__ import annotations

from tilewright.proposers.rewriter.expr import (
    Expr,
    Remainder,
    Var,
    bounds,
    quotient,
    remainder,
    var,
)
from tilewright.proposers.rewriter.ir import (
    Local,
    Text,
)
from tilewright.proposers.rewriter.lifting.symbolic_values import (
    MARK,
    NotModelled,
    Table,
    Value,
    is_marked,
    toggled_name,
)

_WORD = 64
"""Number of bits of the widest integer. C does not define a shift by this number or more."""
_HIGHEST_INT = (1 << 31) - 1


def literal(text: str) -> Value:
    """A number, or text if it is not an integer."""
    try:
        return Expr(int(text.rstrip("uUlL"), 8 if text.isdigit() and text[0] == "0" else 0))
    except ValueError:
        return Text(text)


def looked_up(table: Table, index: Expr) -> Value:
    """An entry of a constant array. Entries at equal distances become one expression."""
    values = table.values
    if index.is_const and not 0 <= index.const < len(values):
        raise NotModelled("an index lies outside a constant array")
    first = values[index.const if index.is_const else 0]
    if index.is_const and first is not None:
        return first
    rows = [v.row if isinstance(v, Local) else v for v in values]
    numbers = [r for r in rows if isinstance(r, Expr)]
    offset = _evenly(numbers, index) if len(numbers) == len(values) else None
    if offset is not None:
        if isinstance(first, Expr):
            return first + offset
        kinds = {(v.space, v.flags) for v in values if isinstance(v, Local)}
        if isinstance(first, Local) and len(kinds) == 1:
            return Local(first.space, first.row + offset, first.flags)
    raise NotModelled(
        "the entries of this table have no constant difference, so an index cannot select one"
    )


def _evenly(numbers: list[Expr], index: Expr) -> Expr | None:
    """The distance of entry `index` from the first, if the entries grow in two regular steps."""
    apart = [n - numbers[0] for n in numbers]
    if not all(d.is_const for d in apart):
        return None
    for size in range(len(apart), 1, -1):
        within, across = apart[1].const, apart[size].const if size < len(apart) else 0
        if all(d.const == n % size * within + n // size * across for n, d in enumerate(apart)):
            if size == len(apart):
                return index * within
            return remainder(index, size) * within + quotient(index, size) * across
    return None


_MOST_BITS = 128
"""Maximum absolute value of a constant, because repeated products would otherwise grow without
limit."""


def arithmetic(operator: str, left: Expr, right: Expr) -> Expr:
    """The combination of two integers; `NotModelled` if it is not affine or overflows."""
    if max(left.const.bit_length(), right.const.bit_length()) > _MOST_BITS:
        raise NotModelled("a number overflows")
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
        case "/" | "%" if left.is_const and left.const < 0 and right.is_const and right.const > 0:
            whole = -(-left.const // right.const)  # C rounds towards 0
            return Expr(whole if operator == "/" else left.const - whole * right.const)
        case "/" if right.is_const and right.const > 0:
            return quotient(left, right.const)
        case "%" if right.is_const and right.const > 0:
            return remainder(left, right.const)
        case "<<" if right.is_const and 0 <= right.const < _WORD:
            return left * (1 << right.const)
        case ">>" if right.is_const and 0 <= right.const < _WORD:
            return quotient(left, 1 << right.const)
        case "&" if right.is_const:
            return masked(left, right.const)
        case "&" if left.is_const:
            return masked(right, left.const)
        case "^" if right.is_const:
            return toggled(left, right.const)
        case "^" if left.is_const:
            return toggled(right, left.const)
    raise NotModelled(f"the result of the operator {operator} is not an affine expression")


def masked(value: Expr, mask: int) -> Expr:
    """`value & mask` for adjacent bits, such as `x & 48`, and for all bits from one on, such as `x
    & -16`."""
    lowest = mask & -mask
    if mask < 0 and mask == -lowest:
        return value - remainder(value, lowest)
    if mask == 0:
        return Expr(0)
    if mask > 0 and (mask + lowest) & mask == 0:
        return remainder(quotient(value, lowest), mask // lowest + 1) * lowest
    raise NotModelled("the result of the operator & is not an affine expression")


def toggled(value: Expr, mask: int) -> Expr:
    """`value ^ mask` for a value that has at most two possible values, and for marks.

    A mask with higher bits than an int may change the sign of a value, or extend beyond its type.
    """
    if not 0 <= mask <= _HIGHEST_INT:
        raise NotModelled("the operator ^ changes bits that an int does not have")
    if mask == 1 and is_bit(value):
        return flipped(value)
    if value.is_const and value.const >= 0:
        return Expr(value.const ^ mask)
    if len(value.terms) == 1:
        atom, apart = value.terms[0]
        if isinstance(atom, Var) and atom.name.endswith(MARK) and value == var(atom.name):
            return var(toggled_name(atom.name, mask))
        bit, two = Expr(0, ((atom, 1),)), (value.const, value.const + apart)
        if bounds(bit, {}) == (0, 1) and min(two) >= 0:
            first, second = (number ^ mask for number in two)
            return bit * (second - first) + first
    raise NotModelled("the result of the operator ^ is not an affine expression")


def is_bit(expr: Expr) -> bool:
    """Whether a value is 0 or 1. At the beginning of an unknown iteration, this may be found only
    later."""
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
