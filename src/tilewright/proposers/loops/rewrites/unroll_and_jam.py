"""Unroll an outer loop and jam the copies of the inner loops.

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

Variables and arrays that an iteration writes before it reads them, and that nothing else uses, are
separate for each copy. A reduction outside the inner loops is done by all copies in their order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    arrays_in,
    assigned_in,
    fresh,
    names_in,
    reductions,
    visible_types,
)
from tilewright.proposers.loops.analysis.independence import require_independent
from tilewright.proposers.loops.analysis.sharing import require_rewritten, uses_of
from tilewright.proposers.loops.ir import (
    Command,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Parameter,
    Statement,
    Var,
    around,
    changed_in,
    loops,
    statements,
    with_loop,
)
from tilewright.proposers.loops.rewrites.parallelise import private
from tilewright.proposers.loops.rewrites.registers import of_copy, require_private, shared
from tilewright.proposers.loops.rewrites.unroll import copied

_MOST_ELEMENTS = 1 << 13
"""Maximum size of arrays that are separate for each copy, so that they stay in the first-level
cache."""


def jam(kernel: Kernel, number: int, copies: int) -> Kernel:
    """The kernel in which loop `number` is unrolled and jammed. Raises `NotApplicableError`."""
    loop = loops(kernel)[number]
    if loop.trips < copies or not any(isinstance(s, For) for s in loop.body):
        raise NotApplicableError("the loop has too few iterations, or contains no loop")
    commands = any(isinstance(s, Command) for s in statements(loop.body))
    own = [] if commands else private(kernel, around(kernel, number))
    static = [] if commands else _private_static(kernel, loop)
    names = {v.name for v in own} | {v.name for v in static}
    inner = arrays_in(loop.body)
    sizes = [*(v.sizes for v in own), *(v.sizes for v in static), *inner.values()]
    if sum(map(math.prod, sizes)) * copies > _MOST_ELEMENTS:
        raise NotApplicableError("the arrays of all copies would be too large")
    inside = assigned_in(tuple(s for s in loop.body if isinstance(s, For)))
    if any(r.name in inside for r in reductions(loop, visible_types(kernel, number), names)):
        raise NotApplicableError("an inner loop continues a reduction")
    require_independent(loop, kernel, {*names, *inner})
    require_private(kernel, loop)
    taken = names_in(kernel)
    bodies = [list(loop.body)]
    new: list[Statement] = []
    scratch = [*kernel.scratch]
    for copy in range(1, copies):
        renamed = {name: fresh(name, taken) for name in sorted(names)}
        new += [replace(v, name=renamed[v.name], value=None) for v in own]
        scratch += [replace(v, name=renamed[v.name]) for v in static]
        body = [with_names(s, renamed) for s in copied(loop, copy, {}, taken)]
        bodies.append(of_copy(body, copy))
    main = loop.first + loop.trips // copies * copies * loop.step
    new.append(replace(loop, last=main, step=copies * loop.step, body=_jammed(bodies)))
    if loop.trips % copies:
        new.append(replace(loop, first=main, threads=1))
    return shared(replace(with_loop(kernel, number, tuple(new)), scratch=tuple(scratch)))


def _private_static(kernel: Kernel, loop: For) -> list[Parameter]:
    """Static arrays that nothing else uses, and of which each iteration writes the elements that it
    reads."""
    found = []
    for array in kernel.scratch:
        like = Declare("float", array.name, array.sizes)
        uses = uses_of(array.name, loop.body)
        if not uses or uses_of(array.name, kernel.body) > uses:
            continue
        try:
            require_rewritten(loop, like, kernel.lanes)
        except NotApplicableError:
            continue
        found.append(array)
    return found


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
    """The statements of all copies in turn. Loops at the same position are merged into one."""
    found: list[Statement] = []
    for place in zip(*bodies, strict=True):
        first = place[0]
        if isinstance(first, For):
            inner = [list(s.body) for s in place if isinstance(s, For)]
            found.append(replace(first, body=_jammed(inner)))
        else:
            found += place
    return tuple(found)
