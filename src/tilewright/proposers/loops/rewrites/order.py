"""Loops in another order, and in blocks.

Before::

    for (int i = 0; i < 64; i++)
      for (int j = 0; j < 64; j++) C[i][j] = A[i] * B[j];

After an exchange of the first loop with the one inside::

    for (int j = 0; j < 64; j++)
      for (int i = 0; i < 64; i++) C[i][j] = A[i] * B[j];

After blocks of 16 iterations of the loop inside::

    for (int j_1 = 0; j_1 < 64; j_1 += 16)
      for (int i = 0; i < 64; i++)
        for (int j = 0; j < 16; j++) C[i][j_1 + j] = A[i] * B[j_1 + j];
"""

from __future__ import annotations

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
    Binary,
    Expr,
    For,
    Kernel,
    Statement,
    Var,
    changed_in,
    loops,
    with_loop,
)
from tilewright.proposers.loops.rewrites.registers import require_private


def exchange(kernel: Kernel, number: int) -> Kernel:
    """The kernel with loop `number` and the one right inside it exchanged.

    Raises `NotApplicableError`.
    """
    outer, inner = _nest(kernel, number)
    swapped = replace(inner, body=(replace(outer, body=inner.body),))
    return with_loop(kernel, number, (swapped,))


def block(kernel: Kernel, number: int, iterations: int) -> Kernel:
    """The kernel with the loop right inside loop `number` in blocks, which now stand outside both.

    Iterations that fill no block come after. Raises `NotApplicableError`.
    """
    outer, inner = _nest(kernel, number)
    if inner.threads > 1:
        raise NotApplicableError("the loop inside is shared among threads")
    if inner.trips < 2 * iterations:
        raise NotApplicableError("the loop inside has not two such blocks")
    name = fresh(inner.variable, names_in(kernel))
    place = Binary("+", Var(name), Var(inner.variable))

    def moved(expr: Expr) -> Expr:
        return place if expr == Var(inner.variable) else expr

    size = iterations * inner.step
    body = tuple(changed_in(s, moved) for s in inner.body)
    inside = replace(inner, first=0, last=size, body=body)
    main = inner.first + inner.trips // iterations * size
    blocks = For(name, inner.first, main, size, (replace(outer, body=(inside,)),))
    new: list[Statement] = [blocks]
    if inner.trips % iterations:
        new.append(replace(outer, body=(replace(inner, first=main),)))
    return with_loop(kernel, number, tuple(new))


def _nest(kernel: Kernel, number: int) -> tuple[For, For]:
    """A loop and the one that is all of its body, whose iterations may run in any order."""
    outer = loops(kernel)[number]
    if len(outer.body) != 1 or not isinstance(outer.body[0], For):
        raise NotApplicableError("the body of the loop is not one loop")
    if outer.threads > 1:
        raise NotApplicableError("the loop is shared among threads: order its nest before")
    if reductions(outer, visible_types(kernel, number)):
        raise NotApplicableError("the loop carries a reduction")
    require_independent(outer, kernel)
    require_private(kernel, outer)
    return outer, outer.body[0]
