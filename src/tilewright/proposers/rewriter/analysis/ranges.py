"""Ranges, trip counts and simplification, derived from loop bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias, TypeVar

from tilewright.proposers.rewriter.expr import (
    Bounds,
    Expr,
    Minimum,
    Var,
    bounds,
    evaluated,
    minimum,
    simplified,
    var,
)
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Compare,
    Condition,
    Flag,
    Guard,
    Kernel,
    Local,
    Loop,
    Stmt,
    has_opaque,
    map_expressions,
    map_operand,
    rebuilt,
    walk,
    walk_paths,
)

Env: TypeAlias = Mapping[str, Bounds]
_Item = TypeVar("_Item")


def entered(env: Env, loop: Loop) -> Env:
    """The ranges inside a loop."""
    low, _ = bounds(loop.lower, env)
    _, high = bounds(loop.upper, env)
    last = high - 1
    steps_from_low = all(factor % loop.step == 0 for _, factor in loop.lower.terms)
    if steps_from_low and math.isfinite(low) and math.isfinite(high):
        last = low + (high - 1 - low) // loop.step * loop.step
    return {**env, loop.var: (low, max(low, last))}


@lru_cache(maxsize=4096)
def env_of(above: Body) -> Env:
    """The ranges inside these enclosing statements."""
    env: Env = {}
    for stmt in above:
        if isinstance(stmt, Loop):
            env = entered(env, stmt)
        elif isinstance(stmt, Guard) and not stmt.orelse:
            for compare in stmt.condition:
                env = _where(compare, env, above)
    return env


def _where(compare: Compare, env: Env, above: Body) -> Env:
    """The ranges in which a comparison of one loop's variable with a number is true.

    `if (k + 16 < 64)` in a loop over 0, 16, 32, 48 leaves 0 to 32, so data that are loaded ahead
    stay within the rows of the whole loop.
    """
    difference = compare.left - compare.right
    match difference.terms:
        case ((Var(name), (1 | -1) as sign),) if name in env:
            low, high = env[name]
        case _:
            return env
    loop = next(s for s in reversed(above) if isinstance(s, Loop) and s.var == name)
    if not loop.lower.is_const:
        return env
    op = compare.op if sign > 0 else _MIRRORED[compare.op]
    limit, first = -difference.const * sign, loop.lower.const
    if op in ("<", "<=", "=="):
        last = limit - 1 if op == "<" else limit
        high = min(high, first + (last - first) // loop.step * loop.step)
    if op in (">", ">=", "=="):
        least = limit + 1 if op == ">" else limit
        low = max(low, first - (first - least) // loop.step * loop.step)
    return {**env, name: (low, high)} if low <= high else env


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def trips(loop: Loop, env: Env) -> tuple[float, float]:
    """The smallest and largest number of iterations."""
    low, high = bounds(_span(loop), env)
    return max(0, -(-low // loop.step)), max(0, -(-high // loop.step))


def _span(loop: Loop) -> Expr:
    """`upper - lower`. The lower bound is moved into a minimum, so that both cancel."""
    match loop.upper:
        case Expr(const, ((Minimum(left, right), 1),)):
            return minimum(left + const - loop.lower, right + const - loop.lower)
    return loop.upper - loop.lower


def trip_count(loop: Loop, env: Env) -> int | None:
    """The largest number of iterations; None if it is not known."""
    most = trips(loop, env)[1]
    return int(most) if math.isfinite(most) else None


@lru_cache(maxsize=4096)
def mean(expr: Expr, above: Body) -> float:
    """The average over all iterations of the enclosing loops, or the largest value if there are
    many.

    `min(16, 28 - x)` in a loop over 0 and 16 is 14 on average: the number of rows of tiles that do
    not divide a size evenly.
    """
    values = _values(expr, above)
    return sum(values) / len(values) if values else bounds(expr, env_of(above))[1]


@lru_cache(maxsize=4096)
def mean_trips(loop: Loop, above: Body) -> float:
    """The average number of iterations over those of the enclosing loops, computed like `mean`."""
    values = _values(_span(loop), above)
    if values:
        return sum(max(0, -(-v // loop.step)) for v in values) / len(values)
    return trips(loop, env_of(above))[1]


def _values(expr: Expr, above: Body) -> list[int]:
    """The value in each iteration of the enclosing loops, or in some of them if they are many;
    empty if bounds are unknown."""
    names, named = set(expr.names()), list[Loop]()
    for loop in reversed(loops_in(above)):
        if loop.var in names:
            named.insert(0, loop)
            names |= loop.lower.names() | loop.upper.names()
    points: list[dict[str, int]] = [{}]
    known = set[str]()
    for loop in named:
        if not (points and loop.lower.names() | loop.upper.names() <= known):
            return []
        points = [
            {**point, loop.var: n}
            for point in points
            for n in _some(
                range(evaluated(loop.lower, point), evaluated(loop.upper, point), loop.step),
                MOST_VALUES,
            )
        ]
        points = list(_some(points, MOST_VALUES))
        known.add(loop.var)
    return [evaluated(expr, point) for point in points] if expr.names() <= known else []


def _some(items: Sequence[_Item], most: int) -> Sequence[_Item]:
    """The items, or evenly spaced ones if they are more than twice as many as `most`."""
    return items[:: max(1, len(items) // most)]


MOST_VALUES = 128
"""Approximate maximum number of values of an expression that are averaged."""


def loops_in(above: Body) -> list[Loop]:
    """The loops among enclosing statements, outermost first."""
    return [s for s in above if isinstance(s, Loop)]


@lru_cache(maxsize=2048)
def labelled_loops(body: Body) -> tuple[tuple[str, Loop, Body], ...]:
    """Every loop with a label that is unique in the kernel (`k`, `k#2`, ...) and its enclosing
    statements."""
    seen: dict[str, int] = {}
    result = []
    for stmt, above in walk_paths(body):
        if isinstance(stmt, Loop):
            seen[stmt.var] = seen.get(stmt.var, 0) + 1
            count = seen[stmt.var]
            label = stmt.var if count == 1 else f"{stmt.var}#{count}"
            result.append((label, stmt, above))
    return tuple(result)


def same_loop(before: Kernel, after: Kernel, loop: Loop) -> Loop:
    """The loop at the position of `loop` in a kernel with the same loops."""
    position = [s for s in walk(before.body) if isinstance(s, Loop)].index(loop)
    return [s for s in walk(after.body) if isinstance(s, Loop)][position]


def at_value(body: Body, name: str, value: Expr) -> Body:
    """A body in which a variable is replaced by a value. Inner loops are renamed if they have a
    name in this value."""
    bound = {s.var for s in walk(body) if isinstance(s, Loop)}
    for clash in sorted(bound & value.names()):
        fresh = clash + "_"
        while fresh in bound | value.names():
            fresh += "_"
        body = _renamed(body, clash, fresh)
    return map_expressions(body, lambda e: e.substituted({name: value}))


def _renamed(body: Body, old: str, new: str) -> Body:
    """A body in which loops over `old` use the variable `new` instead."""

    def change(stmt: Stmt) -> Body | None:
        if isinstance(stmt, Loop) and stmt.var == old:
            return (
                replace(
                    stmt,
                    var=new,
                    body=map_expressions(stmt.body, lambda e: e.substituted({old: var(new)})),
                ),
            )
        return None

    return rebuilt(body, change)


def simplify(kernel: Kernel) -> Kernel:
    """Evaluate what loop bounds decide: minimums, remainders, conditions, loops with one iteration.

    Before: `for (int j = 0; j < 64; j += 64) { const int cols = 64 - j < 64 ? ... }`
    After:  the body with `j` replaced by 0 and `cols` by 64.
    """
    return kernel.with_body(_distinct(_simplify(kernel.body, {}), set()))


def folded(body: Body, env: Env) -> Body:
    """A body in which everything that these ranges decide is evaluated."""
    return _distinct(_simplify(body, env), set())


def _distinct(body: Body, seen: set[Stmt]) -> Body:
    """The body with a separate copy of every statement that occurs twice, because statements
    compare by identity."""
    result: list[Stmt] = []
    for stmt in body:
        again = stmt in seen
        seen.add(stmt)
        if isinstance(stmt, Loop):
            inner = _distinct(stmt.body, seen)
            changed = again or inner != stmt.body
            result.append(replace(stmt, body=inner) if changed else stmt)
        elif isinstance(stmt, Guard):
            parts = _distinct(stmt.body, seen), _distinct(stmt.orelse, seen)
            changed = again or parts != (stmt.body, stmt.orelse)
            result.append(replace(stmt, body=parts[0], orelse=parts[1]) if changed else stmt)
        else:
            result.append(replace(stmt) if again else stmt)
    return tuple(result)


def _simplify(body: Body, env: Env) -> Body:
    result: list[Stmt] = []
    for stmt in body:
        result.extend(_simplify_one(stmt, env))
    return tuple(result)


def _simplify_one(stmt: Stmt, env: Env) -> Body:
    def fold(expr: Expr) -> Expr:
        return simplified(expr, env) if expr.terms else expr

    if isinstance(stmt, Command):
        operands = tuple(
            replace(o, flags=_decided_flags(o.flags, env)) if isinstance(o, Local) else o
            for o in (map_operand(o, fold) for o in stmt.operands)
        )
        return (stmt if operands == stmt.operands else replace(stmt, operands=operands),)
    if isinstance(stmt, Loop):
        lower, upper = fold(stmt.lower), fold(stmt.upper)
        if (lower, upper) != (stmt.lower, stmt.upper):
            stmt = replace(stmt, lower=lower, upper=upper)
        return _simplify_loop(stmt, env)
    if isinstance(stmt, Guard):
        verdict, left = decide(stmt.condition, env)
        if verdict is None:
            body, orelse = _simplify(stmt.body, env), _simplify(stmt.orelse, env)
            if (left, body, orelse) == (stmt.condition, stmt.body, stmt.orelse):
                return (stmt,)
            return (replace(stmt, condition=left, body=body, orelse=orelse),)
        return _simplify(with_notes(stmt.body if verdict else stmt.orelse, stmt.notes), env)
    return map_expressions((stmt,), fold)


def _simplify_loop(loop: Loop, env: Env) -> Body:
    if loop.var in env and not has_opaque(loop.body):
        loop = _unshadowed(loop, env)
    fewest, most = trips(loop, env)
    if most == 0:
        return ()
    if fewest == most == 1 and not has_opaque(loop.body):
        once = at_value(loop.body, loop.var, loop.lower)
        return _simplify(with_notes(once, loop.notes), env)
    body = _simplify(loop.body, entered(env, loop))
    if fewest >= 1 and _only_first(loop, body):
        once = at_value(body, loop.var, loop.lower)
        return _simplify(with_notes(once, loop.notes), env)
    if body == loop.body:
        return (loop,)
    return (replace(loop, body=body),) if body else ()


def _only_first(loop: Loop, body: Body) -> bool:
    """Whether everything in a loop is guarded so that it happens only in the first iteration."""
    first = Compare("==", var(loop.var), loop.lower)
    return bool(body) and all(
        isinstance(s, Guard) and not s.orelse and first in s.condition for s in body
    )


def _unshadowed(loop: Loop, env: Env) -> Loop:
    """A loop whose variable is renamed if an enclosing loop has the same variable."""
    inner = rebuilt(
        loop.body,
        lambda s: (_unshadowed(s, env),) if isinstance(s, Loop) and s.var == loop.var else None,
    )
    loop = replace(loop, body=inner)
    taken = {s.var for s in walk(loop.body) if isinstance(s, Loop)} | set(env)
    fresh = loop.var + "_"
    while fresh in taken:
        fresh += "_"
    (renamed,) = _renamed((loop,), loop.var, fresh)
    assert isinstance(renamed, Loop)
    return renamed


def with_notes(body: Body, notes: tuple[str, ...]) -> Body:
    """Comment lines that are put before the first statement."""
    if not notes or not body:
        return body
    return (replace(body[0], notes=(*notes, *body[0].notes)), *body[1:])


def _decided_flags(flags: tuple[Flag, ...], env: Env) -> tuple[Flag, ...]:
    kept = []
    for flag in flags:
        verdict, left = decide(flag.when, env)
        if verdict is not False:
            kept.append(Flag(flag.name, () if verdict else left))
    return tuple(kept)


_DECIDERS: Mapping[str, Callable[[float, float], bool | None]] = {
    "<": lambda low, high: True if high < 0 else False if low >= 0 else None,
    "<=": lambda low, high: True if high <= 0 else False if low > 0 else None,
    ">": lambda low, high: True if low > 0 else False if high <= 0 else None,
    ">=": lambda low, high: True if low >= 0 else False if high < 0 else None,
    "==": lambda low, high: True if low == high == 0 else False if low > 0 or high < 0 else None,
    "!=": lambda low, high: False if low == high == 0 else True if low > 0 or high < 0 else None,
}


def decide(condition: Condition, env: Env) -> tuple[bool | None, Condition]:
    """Whether a condition is always or never true within `env`, and the rest of the condition."""
    left: list[Compare] = []
    for compare in condition:
        low, high = bounds(compare.left - compare.right, env)
        verdict = _DECIDERS[compare.op](low, high)
        if verdict is False:
            return False, ()
        if verdict is None:
            left.extend(_at_the_lowest(compare, env) if low == 0 else (compare,))
    return (None, tuple(left)) if left else (True, ())


def _at_the_lowest(compare: Compare, env: Env) -> Condition:
    """The condition that a sum has its smallest value: every variable in it has its own smallest
    value.

    Before: `y + yy == 0`.  After: `y == 0 && yy == 0`.
    """
    terms = (compare.left - compare.right).terms
    if compare.op != "==" or len(terms) < 2:
        return (compare,)
    if not all(isinstance(a, Var) and c > 0 for a, c in terms):
        return (compare,)
    return tuple(
        Compare("==", Expr(0, ((a, 1),)), Expr(int(bounds(Expr(0, ((a, 1),)), env)[0])))
        for a, _ in terms
    )
