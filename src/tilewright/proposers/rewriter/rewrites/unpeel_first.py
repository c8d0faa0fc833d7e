"""Merge a first iteration that is written before its loop, without the flags of later iterations,
into the loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.proposers.rewriter.analysis.ranges import Env, at_value, entered, folded
from tilewright.proposers.rewriter.expr import Expr, bounds, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Compare,
    Flag,
    Kernel,
    Local,
    Loop,
    Operand,
    Stmt,
    commands,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.roll import alike, roll

ROUNDS = 6
"""The loop after it was merged with its first iteration, and the repetitions that were made a
loop."""


def joined(kernel: Kernel, machine: Machine) -> Kernel:
    """Loops merged with their first iterations if only flags differ.

    Before: `multiply(c, 0); for (k = 1; k < 4; k++) multiply(c | ADD, k);`
    After:  `for (k = 0; k < 4; k++) multiply(k > 0 ? c | ADD : c, k);`

    The same commands are issued in the same order.
    """
    settings = {c.name: 0 for c in commands(kernel.body) if machine.unit(c.name) == "config"}
    for _ in range(ROUNDS):
        body = roll(kernel, _joined(kernel.body, {}), growing=settings)
        if body == kernel.body:
            break
        kernel = kernel.with_body(body)
    return kernel


def _joined(body: Body, env: Env) -> Body:
    found: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, Loop):
            inner = _joined(stmt.body, entered(env, stmt))
            loop = stmt if inner == stmt.body else replace(stmt, body=inner)
            while (longer := _with_first(loop, found, env)) is not None:
                del found[-len(loop.body) :]
                loop = longer
            found.append(loop)
        else:
            found.append(stmt)
    return tuple(found)


def _with_first(loop: Loop, before: Sequence[Stmt], env: Env) -> Loop | None:
    """The loop with the iteration that the statements before it form; None if they form none."""
    count = len(loop.body)
    if len(before) < count or not loop.lower.is_const:
        return None
    first = tuple(before[-count:])
    if not alike(first, loop.body):
        return None
    earlier = folded(at_value(loop.body, loop.var, loop.lower - loop.step), env)
    if len(earlier) != count:
        return None
    inside = entered(env, loop)
    since = var(loop.var) - loop.lower + loop.step  # 0 in the new first iteration
    body = _all_merged(first, earlier, loop.body, since, inside)
    if body is None:
        return None
    body = at_value(body, loop.var, var(loop.var) - loop.step)
    return replace(loop, upper=loop.upper + loop.step, body=body)


def _all_merged(
    first: Sequence[Stmt], earlier: Body, body: Body, since: Expr, env: Env
) -> Body | None:
    if not len(first) == len(earlier) == len(body):
        return None
    found = [_merged(a, b, c, since, env) for a, b, c in zip(first, earlier, body, strict=True)]
    known = tuple(s for s in found if s is not None)
    return known if len(known) == len(found) else None


def _merged(first: Stmt, earlier: Stmt, stmt: Stmt, since: Expr, env: Env) -> Stmt | None:
    """A statement for all iterations. `first` is the first one, and `earlier` is the loop's
    statement for the first iteration."""
    if isinstance(stmt, Loop) and isinstance(first, Loop) and isinstance(earlier, Loop):
        limits = (earlier.lower, earlier.upper, earlier.step)
        if (first.lower, first.upper, first.step) != limits or not stmt.lower.is_const:
            return None
        own = at_value(first.body, first.var, var(stmt.var))
        would = at_value(earlier.body, earlier.var, var(stmt.var))
        body = _all_merged(own, would, stmt.body, since, entered(env, stmt))
        return None if body is None else replace(stmt, body=body)
    if not (
        isinstance(stmt, Command) and isinstance(first, Command) and isinstance(earlier, Command)
    ):
        return None
    if first.name != stmt.name or len(first.operands) != len(stmt.operands):
        return None
    given = zip(first.operands, earlier.operands, stmt.operands, strict=True)
    operands = [_operand(a, b, c, since, env) for a, b, c in given]
    known = tuple(o for o in operands if o is not None)
    return replace(stmt, operands=known) if len(known) == len(operands) else None


def _operand(
    first: Operand, earlier: Operand, operand: Operand, since: Expr, env: Env
) -> Operand | None:
    if first == earlier:
        return operand
    if not (isinstance(first, Local) and isinstance(earlier, Local) and isinstance(operand, Local)):
        return None
    if (first.space, first.row) != (earlier.space, earlier.row):
        return None
    had = {f.name: f for f in first.flags}
    if not had.keys() <= {f.name for f in operand.flags}:
        return None
    flags = []
    for would, flag in zip(earlier.flags, operand.flags, strict=True):
        if had.get(flag.name) == would:
            flags.append(flag)
            continue
        begun = _begun(had.get(flag.name), env)
        if flag.when or begun is None:
            return None
        flags.append(Flag(flag.name, (Compare(">", since + begun, Expr()),)))
    return replace(operand, flags=tuple(flags))


def _begun(flag: Flag | None, env: Env) -> Expr | None:
    """The condition that is above 0 except in the first iteration, if the first iteration has the
    flag."""
    if flag is None:
        return Expr()
    if len(flag.when) != 1:
        return None
    (when,) = flag.when
    least = bounds(when.left, env)[0]
    return when.left if when.op == ">" and when.right == Expr() and least >= 0 else None
