"""Make two loops of one whose variable stands for a row and a column.

Before::

    for (int i = 0; i < 4096; i++) Y[i] = X[i] + rows[i / 64] * columns[i % 64];

After::

    for (int i_1 = 0; i_1 < 64; i_1++)
      for (int i_2 = 0; i_2 < 64; i_2++)
        Y[i_1 * 64 + i_2] = X[i_1 * 64 + i_2] + rows[i_1] * columns[i_2];

The iterations keep their order, so that nothing has to be independent.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.proposers.loops.analysis.changes import NotApplicableError, fresh, names_in
from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.ir import (
    Binary,
    Expr,
    For,
    Kernel,
    Number,
    Var,
    changed_in,
    expressions,
    loops,
    with_loop,
)

_FEWEST = 8
"""Minimum number of iterations of the inner loop."""


def has_remainders(loop: For) -> bool:
    """Whether the loop contains `(i + N) / M` or `(i + N) % M`, where `i` is its variable."""
    return any(True for _ in _divisors(loop))


def nested(kernel: Kernel, number: int) -> Kernel:
    """The kernel in which two nested loops replace loop `number`. Raises `NotApplicableError`."""
    loop = loops(kernel)[number]
    divisors = {*_divisors(loop)}
    width = min(divisors, default=1)
    end = loop.first + loop.trips * loop.step
    if any(divisor % width for divisor in divisors) or width % loop.step:
        raise NotApplicableError(f"{loop.variable} is divided by numbers without a common divisor")
    if loop.first < 0 or loop.first % width or end % width or end - loop.first <= width:
        raise NotApplicableError(f"the iterations do not form several complete rows of {width}")
    if width // loop.step < _FEWEST:
        raise NotApplicableError(f"rows of {width // loop.step} iterations are too short")
    taken = names_in(kernel)
    outer, inner = Var(fresh(loop.variable, taken)), Var(fresh(loop.variable, taken))
    row = Binary("*", outer, Number(str(width)))
    variable, step = Var(loop.variable), loop.step
    column: Expr = Binary("*", inner, Number(str(step))) if step > 1 else inner

    def change(expr: Expr) -> Expr:
        """An expression whose parts were already changed: the variable is a sum there."""
        if expr == variable:
            return Binary("+", row, column)
        found = _division(expr)
        if found is None:
            return expr
        sign, value, divisor = found
        terms, offset = linear(value)
        if terms == {inner: step} and 0 <= offset < step == divisor:
            return inner if sign == "/" else Number(str(offset))
        if terms != {outer: width, inner: step} or not 0 <= offset < step:
            return expr
        here = Binary("+", column, Number(str(offset))) if offset else column
        rows = divisor // width
        if sign == "/":
            return outer if rows == 1 else Binary("/", outer, Number(str(rows)))
        if rows == 1:
            return here
        above = Binary("*", Binary("%", outer, Number(str(rows))), Number(str(width)))
        return Binary("+", above, here)

    body = tuple(changed_in(s, change) for s in loop.body)
    columns = For(inner.name, 0, width // step, 1, body)
    first, last = loop.first // width, end // width
    return with_loop(kernel, number, (For(outer.name, first, last, 1, (columns,)),))


def _divisors(loop: For) -> Iterator[int]:
    for expr in expressions(loop.body):
        found = _division(expr)
        if found is not None:
            terms, offset = linear(found[1])
            if terms == {Var(loop.variable): 1} and 0 <= offset < loop.step:
                yield found[2]


def _division(expr: Expr) -> tuple[str, Expr, int] | None:
    """The sign (/ or %), the dividend and the divisor of a division by a number above 1.

    The dividend is not negative where it is the variable of a loop that begins at 0 or above, so
    that shifts and masks divide as well.
    """
    if not isinstance(expr, Binary) or not isinstance(expr.right, Number):
        return None
    number = int(expr.right.text) if expr.right.text.isdigit() else 0
    if expr.operator in ("/", "%") and number > 1:
        return expr.operator, expr.left, number
    if expr.operator == ">>" and 0 < number < 31:
        return "/", expr.left, 1 << number
    if expr.operator == "&" and number and not number & (number + 1):
        return "%", expr.left, number + 1
    return None
