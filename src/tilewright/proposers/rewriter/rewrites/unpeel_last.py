"""Merges a last iteration that is written after its loop, without the loads for a next one, into
the loop."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from tilewright.proposers.rewriter.analysis.ranges import Env, at_value, env_of, folded
from tilewright.proposers.rewriter.expr import Expr, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Compare,
    Guard,
    Kernel,
    Loop,
    Stmt,
    commands,
    has_opaque,
    rebuilt,
    same_code,
    walk_paths,
)


def rejoined(kernel: Kernel, loads: Set[Command], moves: Set[Command]) -> tuple[Kernel, Body]:
    """The kernel with such iterations merged into their loops, and the removed statements.

    Before: `for (k = 0; k < 64; k += 16) { load(k + 16); use(k); }  use(64);`
    After:  `for (k = 0; k < 80; k += 16) { if (k + 16 < 80) load(k + 16); use(k); }`

    Only a loop is changed that contains one of `loads`, which are loads for later iterations. The
    other commands in `moves` may also be issued earlier than they are used. The same commands are
    issued in the same order.
    """
    for stmt, above in walk_paths(kernel.body):
        if isinstance(stmt, Loop) and not loads.isdisjoint(commands(stmt.body)):
            following = _following(kernel.body, stmt, above)
            found = _with_last(stmt, following, env_of(above), moves)
            if found is not None and any(
                isinstance(s, Guard) and not loads.isdisjoint(commands((s,)))
                for s in set(found[0].body) - set(stmt.body)
            ):
                loop, gone = found
                body = _replaced(kernel.body, stmt, loop, gone)
                again, more = rejoined(kernel.with_body(body), loads, moves)
                return again, gone + more
    return kernel, ()


def _replaced(body: Body, old: Loop, new: Loop, gone: Body) -> Body:
    def change(stmt: Stmt) -> Body | None:
        return (new,) if stmt is old else () if stmt in gone else None

    return rebuilt(body, change)


def _following(body: Body, stmt: Stmt, above: Body) -> Body:
    """The statements after another one in the same block."""
    if above:
        outer = above[-1]
        assert isinstance(outer, Loop | Guard)
        body = outer.body
        if isinstance(outer, Guard) and stmt in outer.orelse:
            body = outer.orelse
    return body[body.index(stmt) + 1 :]


def _with_last(
    loop: Loop, following: Body, env: Env, moves: Set[Command]
) -> tuple[Loop, Body] | None:
    """The loop with one more iteration, and the statements after it that formed this iteration."""
    if has_opaque(loop.body) or not (loop.lower.is_const and loop.upper.is_const):
        return None
    repeated = {c.name for c in commands(loop.body) if c not in moves}
    if not repeated <= {c.name for c in commands(following)}:
        return None
    count = len(range(loop.lower.const, loop.upper.const, loop.step))
    last = Expr(loop.lower.const + count * loop.step)
    upper, at = last + loop.step, 0
    body: list[Stmt] = []
    for stmt in loop.body:
        code = folded(at_value((stmt,), loop.var, last), env)
        if code and same_code(code, following[at : at + len(code)]):
            at += len(code)
            body.append(stmt)
        elif set(commands((stmt,))) <= moves:
            ahead = Compare("<", var(loop.var) + loop.step, upper)
            body.append(Guard((ahead,), (stmt,)))
        else:
            return None
    if not at:
        return None
    return replace(loop, upper=upper, body=tuple(body)), following[:at]
