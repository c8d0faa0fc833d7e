"""Simplifies address arithmetic: loops count in the unit that their addresses need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import at_value
from tilewright.proposers.rewriter.expr import Atom, Expr, Quotient, Remainder, quotient, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Kernel,
    Loop,
    commands,
    expressions,
    has_opaque,
    rebuilt,
)
from tilewright.proposers.rewriter.machine import Machine


def count_iterations(kernel: Kernel, machine: Machine, loop: Loop) -> Kernel:
    """Let a loop count its iterations if addresses divide its variable by the step.

    Before: `for (c = 0; c < 128; c += 16) use(SPAD(58 * (c / 16) + c));`
    After:  `for (c = 0; c < 8; c++) use(SPAD(74 * c));`

    Always legal: the new variable is the quotient of the old one, and the compiler converts its
    products with constants to running sums.
    """
    divided = any(by % loop.step == 0 for by in divided_by(loop))
    if loop.step == 1 or not divided or has_opaque(loop.body):
        raise NotApplicable(f"no address divides {loop.var} by the step of its loop")
    count = quotient(loop.upper - loop.lower + (loop.step - 1), loop.step)
    body = at_value(loop.body, loop.var, var(loop.var) * loop.step + loop.lower)
    new = replace(loop, lower=Expr(), upper=count, step=1, body=body)
    return kernel.with_body(rebuilt(kernel.body, lambda s: (new,) if s is loop else None))


def divided_by(loop: Loop) -> set[int]:
    """The numbers by which operands in a loop divide its variable, in quotients and remainders."""
    return {
        atom.by
        for atom in _atoms(loop.body)
        if isinstance(atom, Quotient | Remainder) and atom.of.coefficient(loop.var)
    }


def _atoms(body: Body) -> Iterator[Atom]:
    for command in commands(body):
        for operand in command.operands:
            for expr in expressions(operand):
                yield from expr.atoms()
