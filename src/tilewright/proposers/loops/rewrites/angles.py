"""Compute sines and cosines of vectors without a branch for large angles.

Before::

    for (int i = 0; i < 64; i += 16) *(vf *)&Y[i] = v_sin(*(vf *)&X[i]);

After::

    for (int i = 0; i < 64; i += 16) *(vf *)&Y[i] = v_sin_of_any(*(vf *)&X[i]);

`v_sin` is faster, but has a branch for angles from 100,000 on. A check whose inputs never reach the
branch cannot test it, so a kernel with the branch is refused there (`untested_condition`).
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.functions import OF_ANY_ANGLE
from tilewright.proposers.loops.ir import Call, Expr, Kernel, changed_in, loops, with_loop


def without_branches(kernel: Kernel, number: int) -> Kernel:
    """The kernel with sines and cosines of any angle in loop `number`. Raises
    `NotApplicableError`."""

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Call) and expr.function in OF_ANY_ANGLE:
            return replace(expr, function=OF_ANY_ANGLE[expr.function])
        return expr

    loop = loops(kernel)[number]
    changed = changed_in(loop, change)
    if changed == loop:
        raise NotApplicableError("the loop computes no sines or cosines of vectors")
    return with_loop(kernel, number, (changed,))
