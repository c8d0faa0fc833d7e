"""Compute what is the same in all iterations of a vectorised loop once, before the loop.

Before (X, mean and Y are different arrays)::

    for (int i = 0; i < 64; i += 16) *(vf *)&Y[i] = *(const vf *)&X[i] - sqrtf(mean[c]);

After::

    float same_1 = sqrtf(mean[c]);
    for (int i = 0; i < 64; i += 16) *(vf *)&Y[i] = *(const vf *)&X[i] - same_1;

A compiler does not do this itself, because a vector may be stored anywhere in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import changed_by, fresh
from tilewright.proposers.loops.ir import (
    Assign,
    Call,
    Declare,
    Element,
    Expr,
    For,
    Load,
    Statement,
    Var,
    changed_in,
    parts,
    statements,
    walk,
)
from tilewright.proposers.loops.rewrites.vectors import unconditional


def moved_out(
    loop: For, is_float: Callable[[Expr], bool], taken: set[str]
) -> tuple[list[Statement], For]:
    """Declarations of floats before a loop that has iterations, and the loop that uses them.

    `is_float` says whether the type of a value that is the same for all lanes is float. The names
    of the floats are added to `taken`. Values that an iteration may not compute stay, because an
    element may not exist where a condition fails.
    """
    found: dict[Expr, Var] = {}
    inside = changed_by(loop)
    targets = [s.target for s in statements(loop.body) if isinstance(s, Assign)]
    written = {t.array for t in targets if not isinstance(t, Var)}
    written |= {s.name for s in statements(loop.body) if isinstance(s, Declare)}

    def may_move(expr: Expr) -> bool:
        if isinstance(expr, Element):
            return expr.array not in written
        return expr.name not in inside if isinstance(expr, Var) else not isinstance(expr, Load)

    def search(expr: Expr) -> None:
        costs = any(isinstance(e, (Element, Call)) for e in walk(expr))
        if costs and expr in always and all(map(may_move, walk(expr))) and is_float(expr):
            found.setdefault(expr, Var(fresh("same", taken)))
        elif not isinstance(expr, (Element, Load)):  # subscripts are integers
            for part in parts(expr):
                search(part)

    always = {*unconditional(loop.body)}
    for statement in loop.body:
        if isinstance(statement, (Declare, Assign)) and statement.value is not None:
            search(statement.value)
    body = tuple(changed_in(s, lambda e: found.get(e, e)) for s in loop.body)
    declared: list[Statement] = [Declare("float", v.name, (), e) for e, v in found.items()]
    return declared, replace(loop, body=body)
