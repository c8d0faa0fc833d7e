"""Roll a loop that was unrolled by hand: one copy of its statements, and more iterations.

Before::

    for (int i = 0; i < 64; i += 2) {
      s0 = s0 + X[i] * Y[i];
      s1 = s1 + X[i + 1] * Y[i + 1];
    }

After::

    for (int i = 0; i < 64; i++) s0 = s0 + X[i] * Y[i];

Other rewrites can then choose how often to unroll it. `s1` keeps the value that it has before the
loop. Elements that a loop keeps for later iterations are read again: `windows.py`. Arrays whose
elements are shifted stay in place: `delay_lines.py`. Updates that go through copies of variables
are written at once: `copies.py`. Sums of several terms, such as
`s = s + (X[i] + X[i + 1])`, are first split.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    reduction_of,
    visible_types,
)
from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Call,
    Cast,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Number,
    Statement,
    Var,
    changed,
    changed_in,
    expressions,
    loops,
    parts,
    walk,
    with_loop,
)
from tilewright.proposers.loops.rewrites.copies import without_copies
from tilewright.proposers.loops.rewrites.delay_lines import without_shifts
from tilewright.proposers.loops.rewrites.windows import without_window

_MOST_PARTS = 4000
"""Maximum number of expression parts in a body in which variables are replaced by their values."""


def roll(kernel: Kernel, number: int) -> Kernel:
    """The kernel with loop `number` rolled. Raises `NotApplicableError`."""
    loop = loops(kernel)[number]
    try:
        return without_shifts(kernel, number)
    except NotApplicableError:
        pass
    shorter = without_copies(loop, visible_types(kernel, number))
    if shorter != loop:
        return with_loop(kernel, number, (shorter,))
    if loop.step > 1:
        return with_loop(kernel, number, (_rolled(loop),))
    try:
        return with_loop(kernel, number, (_rolled(_in_larger_steps(loop)),))
    except NotApplicableError:
        return without_window(kernel, number)


def rolled_exactly(loop: For) -> For:
    """The loop with one copy of statements that repeat, whatever they compute, because they stay in
    their order. Raises `NotApplicableError`."""
    loop = loop if loop.step > 1 else _in_larger_steps(loop)
    found = _without_variables(loop.body)
    for copies in _numbers_of_copies(found, loop):
        groups = _one_after_another(found, copies)
        if _repeat(groups, loop, renamed=False):
            return _with_copy(loop, groups[0], copies)
    raise NotApplicableError("the statements of the loop do not repeat")


def _numbers_of_copies(found: list[Assign], loop: For) -> Iterator[int]:
    """The numbers of copies of which statements may consist, the largest first."""
    for copies in range(min(len(found), loop.step), 1, -1):
        if not len(found) % copies and not loop.step % copies:
            yield copies


def _one_after_another(found: list[Assign], copies: int) -> list[list[Assign]]:
    """The statements of each copy, if each copy is complete before the next one begins."""
    each = len(found) // copies
    return [found[n * each : (n + 1) * each] for n in range(copies)]


def _with_copy(loop: For, one: list[Assign], copies: int) -> For:
    last = loop.first + loop.trips * loop.step
    return replace(loop, last=last, step=loop.step // copies, body=tuple(one))


def _in_larger_steps(loop: For) -> For:
    """A loop whose variable is only used in products with a number, such as `X[4 * i + 1]`, with
    the variable multiplied by this number.

    Loops over pointers that move by several elements are read in this form.
    """
    variable = Var(loop.variable)
    uses = sum(e == variable for e in expressions(loop.body))
    factors = [n for e in expressions(loop.body) if (n := _factor(e, variable)) is not None]
    factor = math.gcd(*factors)
    if factor < 2 or len(factors) != uses:
        raise NotApplicableError("the loop variable is used without a factor")

    def divide(expr: Expr) -> Expr:
        by = _factor(expr, variable)
        if by is None:
            return expr
        return variable if by == factor else Binary("*", variable, Number(str(by // factor)))

    body = tuple(changed_in(s, divide) for s in loop.body)
    first, last = loop.first * factor, loop.last * factor
    return replace(loop, first=first, last=last, step=factor, body=body)


def _factor(expr: Expr, variable: Var) -> int | None:
    """The number with which a variable is multiplied in an expression that is just this product."""
    if not isinstance(expr, Binary) or expr.operator != "*":
        return None
    for side, other in ((expr.left, expr.right), (expr.right, expr.left)):
        if side == variable and isinstance(other, Number) and other.text.isdigit():
            return int(other.text)
    return None


def _rolled(loop: For) -> For:
    """The loop with one copy of its statements. Raises `NotApplicableError`."""
    assigned = _without_variables(loop.body)
    taken_apart = [part for statement in assigned for part in _terms(statement)]
    for found in (taken_apart, assigned):
        for copies in _numbers_of_copies(found, loop):
            one = _one_copy(found, copies, loop)
            if one is not None:
                return _with_copy(loop, one, copies)
    raise NotApplicableError("the statements of the loop are not copies of one another")


def _without_variables(body: tuple[Statement, ...]) -> list[Assign]:
    """The assignments in which variables are replaced by their values. Raises
    `NotApplicableError`."""
    assigned = {s.target for s in body if isinstance(s, Assign)}
    values: dict[Expr, Expr] = {}
    changed_since: set[Expr] = set()

    def change(expr: Expr) -> Expr:
        if expr in changed_since:
            raise NotApplicableError("the loop changes data from which a variable was computed")
        return values.get(expr, expr)

    found: list[Assign] = []
    for statement in body:
        if isinstance(statement, Declare):
            variable = Var(statement.name)
            if statement.value is None or statement.sizes or variable in assigned:
                raise NotApplicableError(f"{statement.name} is assigned in the loop")
            value = changed(statement.value, change)
            # The type is that of the declaration. If the value already has this type, no cast is
            # needed.
            same = isinstance(value, (Element, Load)) or statement.type in ("float", "vector")
            values[variable] = value if same else Cast(statement.type, value)
        elif isinstance(statement, Assign):
            target = changed(statement.target, change)
            assert isinstance(target, (Var, Element, Load))
            found.append(Assign(target, changed(statement.value, change)))
            changed_since |= {
                name
                for name, value in values.items()
                if not all(_differ(e, target) for e in walk(value))
            }
        else:
            raise NotApplicableError("the body of the loop contains more than assignments")
    if sum(1 for _ in expressions(tuple(found))) > _MOST_PARTS:
        raise NotApplicableError("the loop is too long")
    return found


def _differ(read: Expr, written: Var | Element | Load) -> bool:
    """Whether `read` certainly is another place than `written`; its operands are not examined."""
    if isinstance(read, Var) or isinstance(written, Var):
        return read != written
    if not isinstance(read, (Element, Load)) or read.array != written.array:
        return True
    if isinstance(read, Load) or isinstance(written, Load):
        return False
    distances = (
        linear(Binary("-", one, other))
        for one, other in zip(read.subscripts, written.subscripts, strict=True)
    )
    return any(not terms and distance for terms, distance in distances)


def _terms(statement: Assign) -> Iterator[Assign]:
    """An addition of several terms to a variable as one addition for each term."""
    target, terms = statement.target, [*_added(statement.value)]
    if not isinstance(target, Var) or terms.count(target) != 1 or len(terms) < 3:
        yield statement
        return
    for term in terms:
        if term != target:
            yield Assign(target, Binary("+", target, term))


def _added(expr: Expr) -> Iterator[Expr]:
    if isinstance(expr, Binary) and expr.operator == "+":
        yield from _added(expr.left)
        yield from _added(expr.right)
    else:
        yield expr


def _one_copy(found: list[Assign], copies: int, loop: For) -> list[Assign] | None:
    """The statements of the first copy, for this number of copies; None if they are not copies."""
    one_after_another = _one_after_another(found, copies)
    side_by_side = [found[n::copies] for n in range(copies)]
    if _are_copies(one_after_another, loop, found):
        return one_after_another[0]
    if len(found) > copies and _are_copies(side_by_side, loop, found) and _may_move(found):
        return side_by_side[0]
    return None


def _are_copies(groups: list[list[Assign]], loop: For, all_: list[Assign]) -> bool:
    """Whether each group is a copy of the first for a later iteration.

    Variables that the loop only reduces, each in the same way, may differ.
    """
    reduced: dict[str, str] = {}
    for statement in all_:
        if isinstance(statement.target, Var):
            kind = reduction_of(statement.target.name, statement.value)
            if kind is None or reduced.setdefault(statement.target.name, kind) != kind:
                return False
    own = {s.target.name: 2 * sum(o.target == s.target for o in all_) for s in all_
           if isinstance(s.target, Var)}  # fmt: skip
    used = [e.name for e in expressions(tuple(all_)) if isinstance(e, Var)]
    if any(used.count(name) != count for name, count in own.items()):
        return False
    return _repeat(groups, loop, renamed=True)


def _repeat(groups: list[list[Assign]], loop: For, *, renamed: bool) -> bool:
    """Whether each group is the first one after the loop's variable has grown. Variables that are
    assigned may have other names if they are `renamed`."""
    later = loop.step // len(groups)
    for place, group in enumerate(groups[1:], 1):
        for first, other in zip(groups[0], group, strict=True):
            names = {}
            if renamed and isinstance(first.target, Var) and isinstance(other.target, Var):
                names = {other.target.name: first.target.name}
            shift = place * later
            if not _same(first.target, other.target, loop.variable, shift, names) or not _same(
                first.value, other.value, loop.variable, shift, names
            ):
                return False
    return True


def _same(one: Expr, other: Expr, variable: str, shift: int, names: Mapping[str, str]) -> bool:
    """Whether `other` equals `one` after a variable has grown by `shift`, with other names."""
    if isinstance(one, Var):
        return (
            isinstance(other, Var)
            and names.get(other.name, other.name) == one.name
            and one.name != variable  # it is not used as a number
        )
    if type(one) is not type(other) or len(parts(one)) != len(parts(other)):
        return False
    if isinstance(one, (Element, Load)) and isinstance(other, (Element, Load)):
        if one.array != other.array:
            return False
        pairs = zip(one.subscripts, other.subscripts, strict=True)
        return all(_later(a, b, variable, shift) for a, b in pairs)
    if isinstance(one, Number):
        return one == other
    if isinstance(one, Binary) and isinstance(other, Binary) and one.operator != other.operator:
        return False
    if isinstance(one, Cast) and isinstance(other, Cast) and one.type != other.type:
        return False
    if isinstance(one, Call) and isinstance(other, Call) and one.function != other.function:
        return False
    pairs = zip(parts(one), parts(other), strict=True)
    return all(_same(a, b, variable, shift, names) for a, b in pairs)


def _later(one: Expr, other: Expr, variable: str, shift: int) -> bool:
    """Whether a subscript equals another one after a variable has grown by `shift`."""
    (terms, offset), (others, later) = linear(one), linear(other)
    if any(t != Var(variable) and Var(variable) in walk(t) for t in terms):
        return False
    return terms == others and later == offset + shift * terms.get(Var(variable), 0)


def _may_move(found: list[Assign]) -> bool:
    """Whether assignments can be exchanged: none reads a variable that another writes."""
    written = [s.target.array for s in found if not isinstance(s.target, Var)]
    read = [e.array for s in found for e in walk(s.value) if isinstance(e, (Element, Load))]
    return not {*written} & {*read}
