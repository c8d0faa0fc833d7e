"""Splits loops over several dimensions, whose variable is divided to separate the dimensions."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.rewriter.analysis.ranges import at_value, simplify
from tilewright.proposers.rewriter.expr import Expr, Quotient, Remainder, var
from tilewright.proposers.rewriter.ir import (
    Dram,
    Kernel,
    Loop,
    commands,
    expressions,
    fresh_name,
    has_opaque,
    rebuilt,
    walk,
)


def unflattened(kernel: Kernel) -> Kernel:
    """One loop for each dimension over which a loop iterates, if addresses in arrays show the
    dimensions.

    Before: `for (p = 0; p < 56; p++) load(&A[p / 2][p % 2 * 16], ..);`
    After:  `for (p = 0; p < 28; p++) for (pp = 0; pp < 2; pp++) load(&A[p][pp * 16], ..);`

    Always legal, because the order of the iterations does not change. Only then is it visible what
    the iterations of each dimension share. Slots in turn are not a dimension, so local addresses
    are ignored.
    """
    while True:
        found = next(
            ((s, by) for s in walk(kernel.body) if isinstance(s, Loop) if (by := _divisor(s))), None
        )
        if found is None:
            return kernel
        kernel = _apart(kernel, *found)


def _divisor(loop: Loop) -> int | None:
    """The smallest number by which a loop's variable is divided, if it makes groups of equal
    size."""
    if not (loop.lower.is_const and loop.upper.is_const) or has_opaque(loop.body):
        return None
    first, count = loop.lower.const, loop.upper.const - loop.lower.const
    divided = [
        atom
        for command in commands(loop.body)
        for operand in command.operands
        if isinstance(operand, Dram | Expr)
        for expr in expressions(operand)
        for atom in expr.atoms()
        if isinstance(atom, Quotient | Remainder) and atom.of.coefficient(loop.var)
    ]
    by = min((atom.by for atom in divided), default=0)
    even = loop.step < by < count and by % loop.step == first % by == count % by == 0
    return by if even and all(_plain(a.of, loop, by) for a in divided if a.by == by) else None


def _plain(divided: Expr, loop: Loop, by: int) -> bool:
    """Whether only the loop's variable is divided, except for whole multiples."""
    return divided == var(loop.var) + divided.const and divided.const % by == 0


def _apart(kernel: Kernel, loop: Loop, by: int) -> Kernel:
    inner = fresh_name(kernel, loop.var)
    body = at_value(loop.body, loop.var, var(loop.var) * by + var(inner))
    new = replace(
        loop,
        lower=Expr(loop.lower.const // by),
        upper=Expr(loop.upper.const // by),
        step=1,
        body=(Loop(inner, Expr(), Expr(by), loop.step, body),),
    )
    return simplify(kernel.with_body(rebuilt(kernel.body, lambda s: (new,) if s is loop else None)))
