"""Split a loop into parts in which the comparisons with its variable are decided.

Before::

    for (int i = 0; i < 64; i++) Y[i] = i == 0 || i == 63 ? X[i] : X[i - 1] + X[i + 1];

After::

    for (int i = 0; i < 1; i++) Y[i] = X[i];
    for (int i = 1; i < 63; i++) Y[i] = X[i - 1] + X[i + 1];
    for (int i = 63; i < 64; i++) Y[i] = X[i];

If a short loop's variable is compared in sums with variables of other loops, as at the border of an
image, the loop is written out, so that the other loops can be split. Before::

    for (int k = -1; k < 2; k++)
      if (i + k >= 0 && i + k < 64) sum = sum + X[i + k] * W[k + 1];

After::

    if (i + -1 >= 0 && i + -1 < 64) sum = sum + X[i + -1] * W[-1 + 1];
    ...

A loop whose variable stands for a row and a column becomes two loops: `remainders.py`.

Integers that are computed from the variable, as in `int left = i > 0 ? i - 1 : 0;`, are then
replaced by their values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from tilewright.proposers.loops.analysis.changes import NotApplicableError, fresh, names_in
from tilewright.proposers.loops.analysis.independence import Ranges
from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Command,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Negative,
    Number,
    Select,
    Statement,
    Var,
    around,
    changed_in,
    expressions,
    loops,
    statements,
    with_loop,
)
from tilewright.proposers.loops.rewrites.remainders import has_remainders, nested

_MOST_PARTS = 4
_MOST_WRITTEN_OUT = 7
_MOST_STATEMENTS = 50
"""Maximum number of statements after a loop was written out."""
_FEW = 8
"""Loops with fewer iterations are not split if they have many statements, or many conditions."""
_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_COMPUTED: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul,
}  # fmt: skip


def split(kernel: Kernel, number: int) -> Kernel:
    """The kernel in which loop `number` is split into parts. Raises `NotApplicableError`."""
    loop = loops(kernel)[number]
    if loop.threads > 1 or any(isinstance(s, Command) for s in statements(loop.body)):
        raise NotApplicableError("the loop is shared among threads, or issues commands")
    if has_remainders(loop):
        return nested(kernel, number)
    last = loop.first + loop.trips * loop.step
    if _can_be_written_out(loop):
        return written_out(kernel, number)
    if any(isinstance(s, For) and _can_be_written_out(s) for s in statements(loop.body)):
        raise NotApplicableError("an inner loop must be unrolled first")
    points = sorted({p for e in expressions(loop.body) for p in _points(e, loop)})
    if not points:
        raise NotApplicableError("no condition compares the variable of the loop with a number")
    is_large = sum(1 for _ in statements(loop.body)) > _MOST_STATEMENTS
    if is_large and min(outer.trips for outer in around(kernel, number)) < _FEW:
        raise NotApplicableError("too few iterations run these statements")
    if len(points) >= _MOST_PARTS:
        points = _around_the_longest(points, loop, last)
    taken = names_in(kernel)
    parts: list[Statement] = []
    outside = Ranges(loop.body)
    for outer in around(kernel, number)[:-1]:
        outside = outside.within(outer)
    for first, end in zip([loop.first, *points], [*points, last], strict=True):
        part = replace(loop, first=first, last=end)
        body = _decided(part, outside.within(part))
        if parts:
            body = _renamed(body, taken)
        if body:
            parts.append(replace(part, body=body))
    return with_loop(kernel, number, tuple(parts))


def _around_the_longest(points: Sequence[int], loop: For, last: int) -> list[int]:
    """The one or two points around the longest part of a loop, in which no condition is left; the
    parts before and after it keep their conditions."""
    ends = [loop.first, *points, last]
    length, begin, end = max((b - a, a, b) for a, b in pairwise(ends))
    if length < _FEW * loop.step:
        raise NotApplicableError(f"the loop has more than {_MOST_PARTS} parts")
    return [point for point in points if point in (begin, end)]


def _can_be_written_out(loop: For) -> bool:
    """Whether a loop is short, and its variable is compared in sums with others."""
    length = loop.trips * sum(1 for _ in statements(loop.body))
    short = loop.trips <= _MOST_WRITTEN_OUT and length <= _MOST_STATEMENTS
    return short and any(_compares_sums(e, loop) for e in expressions(loop.body))


def written_out(kernel: Kernel, number: int) -> Kernel:
    """The kernel in which each iteration of a loop is written separately."""
    loop = loops(kernel)[number]
    taken = names_in(kernel)
    written: list[Statement] = []
    for value in range(loop.first, loop.last, loop.step):
        change = partial(_with_number, Var(loop.variable), value)
        written += _renamed(tuple(changed_in(s, change) for s in loop.body), taken)
    return with_loop(kernel, number, tuple(written))


def _with_number(variable: Var, value: int, expr: Expr) -> Expr:
    """An expression, whose parts were already changed, in which a variable has a value."""
    if expr == variable:
        return _literal(value)
    if not isinstance(expr, Binary) or expr.operator not in _COMPUTED:
        return expr
    sides = _whole(expr.left), _whole(expr.right)
    if sides[0] is None or sides[1] is None:
        return expr
    return _literal(_COMPUTED[expr.operator](sides[0], sides[1]))


def _literal(value: int) -> Expr:
    return Number(str(value)) if value >= 0 else Negative(Number(str(-value)))


def _whole(expr: Expr) -> int | None:
    """The value of an integer literal."""
    if isinstance(expr, Negative):
        inner = _whole(expr.value)
        return None if inner is None else -inner
    return int(expr.text) if isinstance(expr, Number) and expr.text.isdigit() else None


def _compares_sums(expr: Expr, loop: For) -> bool:
    """Whether a comparison contains a sum of the loop's variable and those of others."""
    if not isinstance(expr, Binary) or expr.operator not in _COMPARED:
        return False
    terms, _ = linear(Binary("-", expr.left, expr.right))
    return len(terms) > 1 and Var(loop.variable) in terms and all(isinstance(t, Var) for t in terms)


def _points(expr: Expr, loop: For) -> Iterator[int]:
    """Values of the variable at which the result of a comparison changes."""
    if not isinstance(expr, Binary) or expr.operator not in _COMPARED:
        return
    terms, offset = linear(Binary("-", expr.left, expr.right))
    if set(terms) != {Var(loop.variable)}:
        return
    last = loop.first + (loop.trips - 1) * loop.step
    factor = terms[Var(loop.variable)]
    equal = -offset if factor > 0 else offset  # the multiple for which both sides are equal
    # The first values with at least this multiple, and with more.
    for point in (-(-equal // abs(factor)), equal // abs(factor) + 1):
        begin = loop.first + -(-(point - loop.first) // loop.step) * loop.step
        if loop.first < begin <= last:
            before, after = begin - loop.step, begin
            compare = _COMPARED[expr.operator]
            if compare(factor * before + offset, 0) != compare(factor * after + offset, 0):
                yield begin


def _decided(loop: For, ranges: Ranges) -> tuple[Statement, ...]:
    """The body of a loop for variables in the given ranges, without conditions that are decided."""
    assigned = {s.target for s in statements(loop.body) if isinstance(s, Assign)}
    known: dict[Expr, Expr] = {}
    found: list[Statement] = []
    for statement in loop.body:
        new = _within(statement, known, ranges)
        if isinstance(new, For):
            new = replace(new, body=tuple(_without_idle(new.body)))
            if not new.body:
                continue
        if isinstance(new, Assign) and new.target == new.value:
            continue  # the condition for this assignment is false
        value = _inlined(new, {loop.variable})
        if isinstance(new, Declare) and value is not None and Var(new.name) not in assigned:
            known[Var(new.name)] = value
            continue
        found.append(new)
    return tuple(found)


def _within(statement: Statement, known: Mapping[Expr, Expr], ranges: Ranges) -> Statement:
    """The statement without conditions that the ranges of all enclosing loops decide."""
    if isinstance(statement, For):
        inner = ranges.within(statement)
        body = tuple(_within(s, known, inner) for s in statement.body)
        statement = replace(statement, body=())
    new = changed_in(statement, lambda e: _folded(known.get(e, e), ranges))
    return replace(new, body=body) if isinstance(new, For) else new


def _without_idle(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Statements without assignments of variables to themselves, and without loops that contain
    nothing else."""
    for statement in body:
        if isinstance(statement, For):
            left = tuple(_without_idle(statement.body))
            if left:
                yield replace(statement, body=left)
        elif not isinstance(statement, Assign) or statement.target != statement.value:
            yield statement


def _inlined(statement: Statement, variables: Collection[str]) -> Expr | None:
    """The value of an integer declaration, if the variable can be replaced by it."""
    if not isinstance(statement, Declare) or statement.type != "int" or statement.value is None:
        return None
    return statement.value if _is_followed(statement.value, variables) else None


def _is_followed(value: Expr, variables: Collection[str]) -> bool:
    """Whether a value is an integer computed from such variables and numbers."""
    terms, _ = linear(value)
    return all(isinstance(t, Var) and t.name in variables for t in terms)


def _folded(expr: Expr, ranges: Ranges) -> Expr:
    """A simplified expression, whose parts have already been simplified."""
    if isinstance(expr, Select) and isinstance(expr.condition, Number):
        return expr.other if expr.condition.text == "0" else expr.value
    if not isinstance(expr, Binary):
        return expr
    left, right = expr.left, expr.right
    if expr.operator in ("&&", "||"):
        ends = "0" if expr.operator == "&&" else "1"
        for side, other in ((left, right), (right, left)):
            if isinstance(side, Number) and side.text == ends:
                return side
            if isinstance(side, Number) and side.text in ("0", "1") and _is_truth(other):
                return other
        return expr
    if expr.operator not in _COMPARED:
        return expr
    if not _is_followed(left, ranges) or not _is_followed(right, ranges):
        return expr
    terms, least = linear(Binary("-", left, right))
    most = least
    for term, factor in terms.items():
        assert isinstance(term, Var)
        ends_of = sorted(factor * end for end in ranges[term.name])
        least, most = least + ends_of[0], most + ends_of[1]
    return _truth(expr.operator, least, most) or expr


def _is_truth(expr: Expr) -> bool:
    """Whether an expression is always 0 or 1."""
    if isinstance(expr, Number):
        return expr.text in ("0", "1")
    return isinstance(expr, Binary) and expr.operator in (*_COMPARED, "&&", "||")


def _truth(sign: str, least: int, most: int) -> Number | None:
    """Whether `value sign 0` is true for all values of a range, or for none; None if only for
    some."""
    outcomes = {_COMPARED[sign](value, 0) for value in (least, most)}
    if sign in ("==", "!=") and least <= 0 <= most and least != most:
        return None
    return Number("1" if outcomes == {True} else "0") if len(outcomes) == 1 else None


def _renamed(body: tuple[Statement, ...], taken: set[str]) -> tuple[Statement, ...]:
    """Statements with separate names for the variables that they declare."""
    names = {s.name: fresh(s.name, taken) for s in statements(body) if isinstance(s, Declare)}

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Var):
            return Var(names.get(expr.name, expr.name))
        if isinstance(expr, (Element, Load)):
            return replace(expr, array=names.get(expr.array, expr.array))
        return expr

    def declared(statement: Statement) -> Statement:
        if isinstance(statement, Declare):
            return replace(statement, name=names[statement.name])
        if isinstance(statement, For):
            return replace(statement, body=tuple(map(declared, statement.body)))
        return statement

    return tuple(declared(changed_in(s, change)) for s in body)
