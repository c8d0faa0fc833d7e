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
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.loops.analysis import (
    NotApplicableError,
    names_in,
    reductions,
    visible_types,
)
from tilewright.proposers.loops.independence import require_independent
from tilewright.proposers.loops.ir import For, Kernel, Statement, loops, with_loop
from tilewright.proposers.loops.rewrites.registers import of_copy, require_private, shared
from tilewright.proposers.loops.rewrites.unroll import copied


def jam(kernel: Kernel, number: int, copies: int) -> Kernel:
    """The kernel with loop `number` unrolled and jammed. Raises `NotApplicableError`."""
    loop = loops(kernel)[number]
    if loop.trips < copies or not any(isinstance(s, For) for s in loop.body):
        raise NotApplicableError("the loop has too few iterations, or no loop inside")
    if reductions(loop, visible_types(kernel, number)):
        raise NotApplicableError("the loop carries a reduction")
    require_independent(loop, kernel)
    require_private(kernel, loop)
    taken = names_in(kernel)
    bodies = [
        list(loop.body),
        *(of_copy(copied(loop, copy, {}, taken), copy) for copy in range(1, copies)),
    ]
    main = loop.first + loop.trips // copies * copies * loop.step
    new: list[Statement] = [replace(loop, last=main, step=copies * loop.step, body=_jammed(bodies))]
    if loop.trips % copies:
        new.append(replace(loop, first=main, threads=1))
    return shared(with_loop(kernel, number, tuple(new)))


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
