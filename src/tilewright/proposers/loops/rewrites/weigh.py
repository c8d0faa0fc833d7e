"""Compute the sum of a running sum as a sum with weights, so that no iteration waits for another.

Before::

    for (int i = 0; i < 360; i++) {
      a = a + X[i];
      b = b + a;
    }

After::

    uint32_t a_1 = 0;
    uint32_t b_1 = 0;
    for (int i = 0; i < 360; i++) {
      a_1 = a_1 + X[i];
      b_1 = b_1 + (uint32_t)X[i] * (360 - i);
    }
    b = b + a * 360 + b_1;
    a = a + a_1;

Statements that the author repeated for several iterations are first written once. Compilers put
such sums into vectors. The sums are unsigned numbers, so that they wrap around to the same results.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    element_types,
    fresh,
    names_in,
    used_by,
    visible_types,
)
from tilewright.proposers.loops.analysis.recurrences import Types
from tilewright.proposers.loops.c_types import is_whole
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Call,
    Cast,
    Declare,
    Expr,
    For,
    Kernel,
    Number,
    Statement,
    Type,
    Var,
    loops,
    walk,
    with_loop,
)
from tilewright.proposers.loops.rewrites.roll import rolled_exactly

_TYPES: tuple[Type, ...] = ("uint32_t", "uint64_t")
_PAIR = 2


def weigh(kernel: Kernel, number: int) -> Kernel:
    """The kernel in which loop `number` sums with weights. Raises `NotApplicableError`."""
    loop = loops(kernel)[number]
    if loop.limits is None and len(loop.body) > _PAIR:
        loop = rolled_exactly(loop)
    if loop.limits is not None or loop.threads > 1 or loop.step != 1 or loop.trips < _PAIR:
        what = "threads share the loop, or its number of iterations is not known, or its step not 1"
        raise NotApplicableError(what)
    inner, outer, term, weight = _sums(loop)
    types = visible_types(kernel, number)
    kind = types.get(inner)
    if kind not in _TYPES or types.get(outer) != kind or not _is_whole(kernel, types, term):
        raise NotApplicableError("the sums are not unsigned numbers of one type")
    taken = names_in(kernel)
    one, both = fresh(inner, taken), fresh(outer, taken)
    body: tuple[Statement, ...] = (
        Assign(Var(one), Binary("+", Var(one), term)),
        Assign(Var(both), Binary("+", Var(both), Binary("*", Cast(kind, term), weight))),
    )
    before = Binary("*", Var(inner), Number(str(loop.trips)))
    return with_loop(
        kernel,
        number,
        (
            Declare(kind, one, (), Number("0")),
            Declare(kind, both, (), Number("0")),
            replace(loop, body=body),
            Assign(Var(outer), Binary("+", Binary("+", Var(outer), before), Var(both))),
            Assign(Var(inner), Binary("+", Var(inner), Var(one))),
        ),
    )


def _sums(loop: For) -> tuple[str, str, Expr, Expr]:
    """The running sum, the sum of its values, the term that it adds, and the weight of this term.
    Raises `NotApplicableError`."""
    sums = [s for s in loop.body if isinstance(s, Assign) and isinstance(s.target, Var)]
    if len(loop.body) == len(sums) == _PAIR:
        for first in (True, False):  # whether the running sum changes before it is added
            (inner, term), (outer, added) = map(_added, sums if first else reversed(sums))
            own = {inner, outer}
            if added == Var(inner) != Var(outer) and term is not None and not own & used_by(term):
                most = Number(str(loop.last if first else loop.last - 1))
                return inner, outer, term, Binary("-", most, Var(loop.variable))
    raise NotApplicableError("the loop does not sum a running sum")


def _added(statement: Assign) -> tuple[str, Expr | None]:
    """The variable of a sum, and what a statement adds to it."""
    assert isinstance(statement.target, Var)
    value, name = statement.value, statement.target.name
    if not isinstance(value, Binary) or value.operator != "+" or value.left != Var(name):
        return name, None
    return name, value.right


def _is_whole(kernel: Kernel, variables: dict[str, Type], term: Expr) -> bool:
    """Whether a term is an integer that is computed without calls."""
    plain = not any(isinstance(e, Call) for e in walk(term))
    return plain and is_whole(Types(element_types(kernel), variables).of(term))
