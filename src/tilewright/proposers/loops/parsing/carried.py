"""Finds how an iteration of a loop changes a variable that is followed.

The variable keeps its value, moves by a constant, or, if it is a pointer, takes the value of
another pointer. Before::

    for (int t = 0; t < 10; t++) {
      sweep(old, new);
      float *kept = old; old = new; new = kept;
    }

Read as::

    for (int t = 0; t < 5; t++) {
      sweep(A, B);
      sweep(B, A);
    }
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.ir import Binary, Var
from tilewright.proposers.loops.parsing.arithmetic import SYMBOL
from tilewright.proposers.loops.parsing.scope import Binding, Place, Unknown, Value

_MOST_TURNS = 4
"""Maximum number of source iterations in one iteration of the loop."""


def symbol_of(name: str, start: object) -> Value | Place | Unknown:
    """The expression for the value of a variable before an iteration."""
    value = Value(Var(f"{SYMBOL}{name}"), "int", (0, 1))
    if isinstance(start, Place):
        return replace(start, offset=value)
    if isinstance(start, Value):
        return replace(value, type=start.type)
    assert isinstance(start, Unknown)
    return start


def moved_by(name: str, after: object) -> int | None:
    """The amount by which a variable moved in an iteration; None if it is not constant."""
    value = after.offset if isinstance(after, Place) else after
    if not isinstance(value, Value):
        return None
    terms, amount = linear(Binary("-", value.expr, Var(f"{SYMBOL}{name}")))
    return None if terms else amount


def turned(
    after: Mapping[str, Binding | None], starts: Mapping[str, Binding | None]
) -> dict[str, str]:
    """For each pointer that takes the value of another one in an iteration, this other pointer.

    Only permutations of pointers are supported, so that after some iterations each has its first
    value again.
    """
    turns: dict[str, str] = {}
    for name, place in after.items():
        expr = place.offset.expr if isinstance(place, Place) and place.offset is not None else None
        other = expr.name.removeprefix(SYMBOL) if isinstance(expr, Var) else name
        if other != name and isinstance(starts.get(other), Place):
            turns[name] = other
    while {*turns} - {*turns.values()}:  # a copy, for example the pointer kept during a swap
        turns = {name: other for name, other in turns.items() if name in turns.values()}
    return turns if period_of(turns) <= _MOST_TURNS else {}


def period_of(turns: Mapping[str, str]) -> int:
    """The number of iterations after which each pointer has its first value again."""
    period = 1
    for name in turns:
        length, at = 1, turns[name]
        while at != name:
            length, at = length + 1, turns[at]
        period = math.lcm(period, length)
    return period


def unknown_of(why: str, start: object) -> Unknown:
    """The expression for a variable whose value before an iteration is not known."""
    if isinstance(start, Unknown):
        return replace(start, why=why)
    if isinstance(start, Place):
        rank = start.rank - len(start.subscripts)
        nothing = Place("", start.type, rank, record=start.record, rows=start.rows)
        return Unknown(why, start.type, nothing)
    assert isinstance(start, Value)
    return Unknown(why, start.type)
