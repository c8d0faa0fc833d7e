"""What a condition says about integers that are followed.

Before::

    for (unsigned i = 0; i < 64; i++) if (i >= 4) { unsigned k = i - 4; y[k] = x[i]; }

While the block is read, `i` is between 4 and 63, so `i - 4` is not negative. Only values that are
computed under the condition have the smaller range. Whether an element may be accessed without
the condition, and the bounds of loops, are decided from the whole range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.c_types import common, is_whole
from tilewright.proposers.loops.ir import Binary, Cast, Expr, Number, Type, Var
from tilewright.proposers.loops.parsing.arithmetic import fits
from tilewright.proposers.loops.parsing.scope import Interval, Value

_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "!=": "==", "==": "!="}

IntervalOf = Callable[[Expr], Interval | None]
"""The whole range of an expression of loop variables; None for any other expression."""


@dataclass(frozen=True, slots=True)
class Fact:
    """The smallest and largest value of a sum of loop variables with factors, each if known."""

    terms: Mapping[Expr, int]
    least: int | None
    most: int | None


def facts_of(
    test: Expr, interval_of: IntervalOf, meanings: Mapping[str, Expr], holds: bool = True
) -> Iterator[Fact]:
    """What is known where a condition is true, or false unless it `holds`.

    `meanings` are the conditions that are stored in variables.
    """
    if isinstance(test, Var) and test.name in meanings:
        yield from facts_of(meanings[test.name], interval_of, meanings, holds)
    if not isinstance(test, Binary):
        return
    if test.operator == "==" and test.right == Number("0") and _is_test(test.left, meanings):
        yield from facts_of(test.left, interval_of, meanings, not holds)
    elif test.operator == ("&&" if holds else "||"):
        yield from facts_of(test.left, interval_of, meanings, holds)
        yield from facts_of(test.right, interval_of, meanings, holds)
    elif test.operator in _OPPOSITE:
        sign = test.operator if holds else _OPPOSITE[test.operator]
        yield from _compared(sign, test.left, test.right, interval_of)


def narrowed(value: Value, facts: Sequence[Fact]) -> Value:
    """A value with the range that it has where all facts are true."""
    if value.interval is None or value.interval[0] == value.interval[1] or not facts:
        return value
    terms, offset = linear(value.expr)
    least, most = value.interval
    for fact in facts:
        if fact.terms == terms:
            low, high = fact.least, fact.most
        elif fact.terms == {term: -factor for term, factor in terms.items()}:
            low = None if fact.most is None else -fact.most
            high = None if fact.least is None else -fact.least
        else:
            continue
        least = least if low is None else max(least, low + offset)
        most = most if high is None else min(most, high + offset)
    return replace(value, interval=(least, most)) if least <= most else value


def _is_test(expr: Expr, meanings: Mapping[str, Expr]) -> bool:
    if isinstance(expr, Var):
        return expr.name in meanings
    return isinstance(expr, Binary) and expr.operator in (*_OPPOSITE, "&&", "||")


def _compared(sign: str, left: Expr, right: Expr, interval_of: IntervalOf) -> Iterator[Fact]:
    """What a comparison that is true says, if C compares the values as they are."""
    (left, one), (right, other) = _plain(left, interval_of), _plain(right, interval_of)
    ends = interval_of(left), interval_of(right)
    if ends[0] is None or ends[1] is None:
        return
    if common(one, other).startswith("u") and min(ends[0][0], ends[1][0]) < 0:
        return  # C converts the negative value to a large number
    terms, offset = linear(Binary("-", left, right))
    if not terms or sign == "!=":
        return
    least = {">": 1 - offset, ">=": -offset, "==": -offset}.get(sign)
    most = {"<": -1 - offset, "<=": -offset, "==": -offset}.get(sign)
    yield Fact(terms, least, most)


def _plain(expr: Expr, interval_of: IntervalOf) -> tuple[Expr, Type]:
    """An expression without a conversion that does not change its value, and its type."""
    if isinstance(expr, Cast) and is_whole(expr.type) and fits(interval_of(expr.value), expr.type):
        return expr.value, expr.type
    return expr, "int"
