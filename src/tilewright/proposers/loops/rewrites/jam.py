"""Unroll an outer loop and jam the copies of the loops inside.

Before::

    for (int i = 0; i < 128; i++) {
      float sum = 0.0f;
      for (int k = 0; k < 128; k++) sum = sum + A[i][k] * x[k];
      y[i] = sum;
    }

After (2 copies)::

    for (int i = 0; i < 128; i += 2) {
      float sum = 0.0f;
      float sum_1 = 0.0f;
      for (int k = 0; k < 128; k++) {
        sum = sum + A[i][k] * x[k];
        sum_1 = sum_1 + A[i + 1][k] * x[k];
      }
      y[i] = sum;
      y[i + 1] = sum_1;
    }

What an iteration writes before it reads it, and nothing else uses, each copy has for itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from tilewright.proposers.loops.analysis import (
    NotApplicableError,
    fresh,
    names_in,
    reductions,
    visible_types,
)
from tilewright.proposers.loops.independence import require_independent
from tilewright.proposers.loops.ir import (
    Command,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Statement,
    Var,
    around,
    changed_in,
    loops,
    statements,
    with_loop,
)
from tilewright.proposers.loops.rewrites.registers import of_copy, require_private, shared
from tilewright.proposers.loops.rewrites.share import private
from tilewright.proposers.loops.rewrites.unroll import copied

_MOST_ELEMENTS = 1 << 13
"""Of arrays that copies have for themselves: they are to stay in the first-level cache."""


def jam(kernel: Kernel, number: int, copies: int) -> Kernel:
    """The kernel with loop `number` unrolled and jammed. Raises `NotApplicableError`."""
    loop = loops(kernel)[number]
    if loop.trips < copies or not any(isinstance(s, For) for s in loop.body):
        raise NotApplicableError("the loop has too few iterations, or no loop inside")
    commands = any(isinstance(s, Command) for s in statements(loop.body))
    own = [] if commands else private(kernel, around(kernel, number))
    names = {variable.name for variable in own}
    if sum(math.prod(v.sizes) for v in own) * copies > _MOST_ELEMENTS:
        raise NotApplicableError("the arrays of all copies would be too large")
    if reductions(loop, visible_types(kernel, number), names):
        raise NotApplicableError("the loop carries a reduction")
    require_independent(loop, kernel, names)
    require_private(kernel, loop)
    taken = names_in(kernel)
    bodies = [list(loop.body)]
    new: list[Statement] = []
    for copy in range(1, copies):
        renamed = {name: fresh(name, taken) for name in sorted(names)}
        new += [replace(v, name=renamed[v.name], value=None) for v in own]
        body = [with_names(s, renamed) for s in copied(loop, copy, {}, taken)]
        bodies.append(of_copy(body, copy))
    main = loop.first + loop.trips // copies * copies * loop.step
    new.append(replace(loop, last=main, step=copies * loop.step, body=_jammed(bodies)))
    if loop.trips % copies:
        new.append(replace(loop, first=main, threads=1))
    return shared(with_loop(kernel, number, tuple(new)))


def with_names(statement: Statement, names: Mapping[str, str]) -> Statement:
    """The statement with other names for some variables and arrays."""

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Var):
            return Var(names.get(expr.name, expr.name))
        if isinstance(expr, (Element, Load)):
            return replace(expr, array=names.get(expr.array, expr.array))
        return expr

    return changed_in(statement, change)


def _jammed(bodies: list[list[Statement]]) -> tuple[Statement, ...]:
    """The statements of all copies place by place; loops at one place become one."""
    found: list[Statement] = []
    for place in zip(*bodies, strict=True):
        first = place[0]
        if isinstance(first, For):
            inner = [list(s.body) for s in place if isinstance(s, For)]
            found.append(replace(first, body=_jammed(inner)))
        else:
            found += place
    return tuple(found)
