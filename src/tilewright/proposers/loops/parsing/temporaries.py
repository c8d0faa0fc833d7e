"""Declares variables in the loops that use them, as C99 allows and older C does not.

Before::

    float t;
    for (int i = 0; i < 64; i++) { t = X[i] + B[i]; Y[i] = t * t; }

After::

    for (int i = 0; i < 64; i++) { float t = X[i] + B[i]; Y[i] = t * t; }

This is possible if no iteration reads a value that an earlier iteration, or a statement in front of
the loop, has set, and if nothing reads the last value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import fresh
from tilewright.proposers.loops.ir import (
    Assign,
    Declare,
    Expr,
    For,
    Statement,
    Var,
    changed_in,
    expressions,
    statements,
    walk,
)


def declared_in_loops(body: tuple[Statement, ...], taken: set[str]) -> tuple[Statement, ...]:
    """The statements with each variable declared in the innermost loops that need no other value of
    it. `taken` are all names of the kernel."""
    for declared in [s for s in body if isinstance(s, Declare)]:
        if not declared.sizes and declared.type != "vector":
            body = _without(declared, body, taken)
    return tuple(
        replace(s, body=declared_in_loops(s.body, taken)) if isinstance(s, For) else s for s in body
    )


def _without(
    declared: Declare, body: tuple[Statement, ...], taken: set[str]
) -> tuple[Statement, ...]:
    """The statements with a variable declared in loops among them, where this is possible."""
    name = declared.name
    place = next(i for i, s in enumerate(body) if s is declared)
    after = body[place + 1 :]
    if any(isinstance(s, Declare) and s.name == name for s in statements(after)):
        return body
    inside = {
        i
        for i, s in enumerate(after)
        if isinstance(s, For)
        and _mentions(name, s)
        and not _reads_first(name, s.body)
        and not _in_limits(name, s)
        and not _reads_first(name, after[i + 1 :])
    }
    alone = all(i in inside for i, s in enumerate(after) if _mentions(name, s))
    new: list[Statement] = [] if inside and alone else [declared]
    for i, s in enumerate(after):
        if i in inside:
            assert isinstance(s, For)
            own = name if alone else fresh(name, taken)
            s = replace(s, body=_with_own(declared, own, s.body))
        new.append(s)
    return (*body[:place], *new)


def _with_own(declared: Declare, own: str, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The body of a loop with a variable of its own."""
    if own != declared.name:
        old, new = Var(declared.name), Var(own)
        body = tuple(changed_in(s, lambda e: new if e == old else e) for s in body)
    at = next(i for i, s in enumerate(body) if _mentions(own, s))
    first = body[at]
    if isinstance(first, Assign) and first.target == Var(own):
        return (*body[:at], Declare(declared.type, own, (), first.value), *body[at + 1 :])
    return (*body[:at], Declare(declared.type, own), *body[at:])


def _mentions(name: str, statement: Statement) -> bool:
    return Var(name) in expressions((statement,))


def _in_limits(name: str, loop: For) -> bool:
    """Whether the bounds of a loop depend on a variable."""
    return any(_uses(name, limit) for limit in loop.limits or ())


def _uses(name: str, expr: Expr) -> bool:
    return any(e == Var(name) for e in walk(expr))


def _reads_first(name: str, body: Sequence[Statement]) -> bool:
    """Whether statements may read a value that a variable has before them."""
    for s in body:
        if not _mentions(name, s):
            continue
        if isinstance(s, Assign) and s.target == Var(name) and not _uses(name, s.value):
            return False
        if not isinstance(s, For) or _in_limits(name, s) or _reads_first(name, s.body):
            return True
        if s.limits is None and s.trips and _sets(name, s.body):
            return False
    return False


def _sets(name: str, body: Sequence[Statement]) -> bool:
    """Whether statements set a variable in any case."""
    return any(
        (isinstance(s, Assign) and s.target == Var(name))
        or (isinstance(s, For) and s.limits is None and s.trips > 0 and _sets(name, s.body))
        for s in body
    )
