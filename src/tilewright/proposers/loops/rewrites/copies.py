"""Writes updates of variables that go through copies as one assignment.

Before, as functions on structures are read::

    float a_re = sum_re;
    float c_re;
    c_re = a_re + x[i];
    float re = c_re;
    sum_re = re;

After::

    sum_re = sum_re + x[i];

Other rewrites recognise sums only in this form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import touched_by
from tilewright.proposers.loops.ir import (
    Assign,
    Declare,
    Element,
    Expr,
    For,
    Statement,
    Type,
    Var,
    changed_in,
    expressions,
    walk,
)

Body = tuple[Statement, ...]


def without_copies(loop: For, types: Mapping[str, Type]) -> For:
    """The loop with shorter updates; the same loop if there are none.

    `types` are those of the variables that are visible before the loop.
    """
    known = dict(types)
    made = [*loop.body]
    for statement in made:
        if isinstance(statement, Declare) and not statement.sizes:
            known[statement.name] = statement.type
    place = 0
    while place < len(made):
        shorter = (
            _set_where_declared(made, place)
            or _without_copy(made, place, known)
            or _computed_at_once(made, place, known)
        )
        made = shorter or made
        place = 0 if shorter else place + 1
    return replace(loop, body=tuple(made))


def _set_where_declared(body: list[Statement], place: int) -> list[Statement] | None:
    """The statements in which the first assignment of the variable at a place declares it, if
    another statement copies it."""
    declared = body[place]
    if not isinstance(declared, Declare) or declared.sizes or declared.value is not None:
        return None
    variable, later = Var(declared.name), body[place + 1 :]
    if not any(isinstance(s, (Declare, Assign)) and s.value == variable for s in later):
        return None
    first = next(i for i, s in enumerate(later) if variable in expressions((s,)))
    setting = later[first]
    if not isinstance(setting, Assign) or setting.target != variable:
        return None
    if variable in walk(setting.value):
        return None
    now = replace(declared, value=setting.value)
    return [*body[:place], *later[:first], now, *later[first + 1 :]]


def _without_copy(
    body: list[Statement], place: int, types: Mapping[str, Type]
) -> list[Statement] | None:
    """The statements without the copy at a place, if the copied variable is updated later."""
    copy = body[place]
    if not isinstance(copy, Declare) or not isinstance(copy.value, Var) or copy.sizes:
        return None
    name, given = copy.name, copy.value.name
    later = body[place + 1 :]
    uses = [i for i, s in enumerate(later) if Var(name) in expressions((s,))]
    if not uses or types.get(given) != copy.type or name in touched_by((*later,)):
        return None
    if given not in touched_by((*later,)):
        return None
    until = (*later[: uses[-1]],)
    last = later[uses[-1]]
    if given in touched_by(until) or (isinstance(last, For) and given in touched_by((last,))):
        return None

    def original(expr: Expr) -> Expr:
        return copy.value if expr == Var(name) and copy.value is not None else expr

    return [*body[:place], *(changed_in(s, original) for s in later)]


def _computed_at_once(
    body: list[Statement], place: int, types: Mapping[str, Type]
) -> list[Statement] | None:
    """The statements in which the one at a place computes what it copies, if it declares a variable
    or updates its target in this way."""
    copy = body[place]
    if not isinstance(copy, (Assign, Declare)) or not isinstance(copy.value, Var):
        return None
    name = copy.value.name
    made = next(
        (i for i, s in enumerate(body[:place]) if isinstance(s, Declare) and s.name == name), None
    )
    declared = None if made is None else body[made]
    if made is None or not isinstance(declared, Declare) or declared.value is None:
        return None
    used = {e.array if isinstance(e, Element) else e.name for e in walk(declared.value)
            if isinstance(e, (Var, Element))}  # fmt: skip
    if isinstance(copy, Declare):
        kind: Type | None = copy.type
    elif isinstance(copy.target, Var) and copy.target.name in used:
        kind = types.get(copy.target.name)
    else:
        return None
    between = (*body[made + 1 : place],)
    uses = sum(e == Var(name) for e in expressions((*body,)))
    if kind != declared.type or uses > 1 or used & touched_by(between):
        return None
    return [*body[:made], *between, replace(copy, value=declared.value), *body[place + 1 :]]
