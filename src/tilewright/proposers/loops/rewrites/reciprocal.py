"""Divide once: multiply by the reciprocal of a divisor that does not change in a loop.

Before::

    for (int c = 0; c < 1024; c++) Y[r][c] = Y[r][c] / sum;

After::

    float over_1 = 1.0f / sum;
    for (int c = 0; c < 1024; c++) Y[r][c] = Y[r][c] * over_1;
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    changed_by,
    fresh,
    names_in,
    visible_types,
)
from tilewright.proposers.loops.c_types import is_whole
from tilewright.proposers.loops.functions import ROUNDING
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Call,
    Cast,
    Declare,
    Expr,
    Kernel,
    Load,
    Number,
    Statement,
    Var,
    changed_in,
    expressions,
    loops,
    statements,
    with_loop,
)


def reciprocal(kernel: Kernel, number: int) -> Kernel:
    """The kernel in which the divisions in loop `number` are replaced. Raises
    `NotApplicableError`."""
    loop = loops(kernel)[number]
    if any(_rounds(s) for s in statements(loop.body)):
        raise NotApplicableError("a quotient may be rounded to an integer")
    types, inside = visible_types(kernel, number), changed_by(loop)
    taken = names_in(kernel)
    names: dict[Expr, str] = {}

    def change(expr: Expr) -> Expr:
        if not isinstance(expr, Binary) or expr.operator != "/":
            return expr
        divisor = expr.right
        if isinstance(divisor, Var):
            if divisor.name in inside or types.get(divisor.name) != "float":
                return expr
        elif not (isinstance(divisor, Number) and divisor.text.endswith("f")):
            return expr
        if divisor not in names:
            names[divisor] = fresh("over", taken)
        return Binary("*", expr.left, Var(names[divisor]))

    body = tuple(changed_in(s, change) for s in loop.body)
    if not names:
        raise NotApplicableError("no divisor stays the same during the loop")
    new: list[Statement] = [
        Declare("float", name, (), Binary("/", Number("1.0f"), divisor))
        for divisor, name in names.items()
    ]
    return with_loop(kernel, number, (*new, replace(loop, body=body)))


def _rounds(statement: Statement) -> bool:
    """Whether a statement converts floats to integers, which may differ after a multiplication."""
    target = statement.target if isinstance(statement, Assign) else None
    if isinstance(target, Load) and target.converts:
        return True
    return any(
        (isinstance(e, Cast) and is_whole(e.type))
        or (isinstance(e, Call) and e.function.removeprefix("v_").rstrip("f") in ROUNDING)
        for e in expressions((statement,))
    )
