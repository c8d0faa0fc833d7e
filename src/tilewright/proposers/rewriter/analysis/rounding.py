"""Quotients and remainders as C computes them.

In the loop IR they are rounded down. C rounds towards zero, which differs for negative numbers.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tilewright.proposers.rewriter.analysis.ranges import Env, entered
from tilewright.proposers.rewriter.expr import (
    Atom,
    Expr,
    Minimum,
    Quotient,
    Remainder,
    Var,
    bounds,
    minimum,
)
from tilewright.proposers.rewriter.ir import (
    Body,
    Guard,
    Loop,
    Stmt,
    map_condition,
    map_expressions,
)


def as_in_c(body: Body, env: Env | None = None) -> Body:
    """The same expressions, with multiples added if a dividend may be negative.

    Before: `x[(8 - i) / 16 + 3]` with i up to 32
    After:  `x[(40 - i) / 16 + 1]`
    """
    return tuple(_stmt(stmt, env or {}) for stmt in body)


def _stmt(stmt: Stmt, env: Env) -> Stmt:
    if isinstance(stmt, Loop):
        lower, upper = _expr(stmt.lower, env), _expr(stmt.upper, env)
        body = as_in_c(stmt.body, entered(env, stmt))
        return replace(stmt, lower=lower, upper=upper, body=body)
    if isinstance(stmt, Guard):
        condition = map_condition(stmt.condition, lambda e: _expr(e, env))
        body, orelse = as_in_c(stmt.body, env), as_in_c(stmt.orelse, env)
        return replace(stmt, condition=condition, body=body, orelse=orelse)
    return map_expressions((stmt,), lambda e: _expr(e, env))[0]


def _expr(expr: Expr, env: Env) -> Expr:
    if all(isinstance(a, Var) for a, _ in expr.terms):
        return expr
    total = Expr(expr.const)
    for atom, coefficient in expr.terms:
        total = total + _atom(atom, env) * coefficient
    return total


def _atom(atom: Atom, env: Env) -> Expr:
    match atom:
        case Var():
            return Expr(0, ((atom, 1),))
        case Minimum(left, right):
            return minimum(_expr(left, env), _expr(right, env))
    of = _expr(atom.of, env)
    low, _ = bounds(of, env)
    if not math.isfinite(low):
        return Expr(0, ((atom, 1),))
    turns = max(0, -(int(low) // atom.by))
    if isinstance(atom, Remainder):
        return Expr(0, ((Remainder(of + turns * atom.by, atom.by), 1),))
    return Expr(-turns, ((Quotient(of + turns * atom.by, atom.by), 1),))
