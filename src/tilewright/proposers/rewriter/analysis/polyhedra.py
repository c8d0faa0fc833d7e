"""Decides dependence exactly with integer sets (isl): which iterations access the same rows or
elements.

Questions that intervals decide are answered at once (`intervals.py`). All others are written as
text for isl and answered with yes or no. If isl exceeds its limit of work, so that no question
takes long, the conservative answer is returned: there may be a dependence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

import islpy as isl

from tilewright.proposers.rewriter.analysis.intervals import apart as lie_apart
from tilewright.proposers.rewriter.analysis.intervals import (
    certain,
    covered,
    meet_at_once,
    never_in_turn,
    same_points,
)
from tilewright.proposers.rewriter.analysis.region import Region
from tilewright.proposers.rewriter.expr import Atom, Expr, Minimum, Quotient, Remainder, Var
from tilewright.proposers.rewriter.ir import Condition, Guard, Loop

MAX_OPERATIONS = 200_000
"""Maximum work of isl for one question, in its own unit: about 50 milliseconds."""


def meet(
    first: Region,
    second: Region,
    same: Sequence[Loop] = (),
    apart: Loop | None = None,
    beyond: tuple[Loop, Loop] | None = None,
) -> bool:
    """Whether the regions may share a point in some iterations.

    Loops in `same` have equal values in both, and the loop `apart` has different ones. Of the loops
    in `beyond`, the one of the first region is in a later iteration than that of the second.
    """
    return _meet(first, second, tuple(same), apart, beyond)


@lru_cache(maxsize=1 << 14)
def _meet(
    first: Region,
    second: Region,
    same: tuple[Loop, ...],
    apart: Loop | None,
    beyond: tuple[Loop, Loop] | None,
) -> bool:
    if lie_apart(first, second):
        return False
    if apart is not None and beyond is None and same_points(first, second, same, apart):
        return True
    if apart is None and beyond is None and meet_at_once(first, second):
        return True
    text = [*_domain(first, "a"), *_domain(second, "b")]
    text += [f"a_{s.var} = b_{s.var}" for s in same]
    if apart is not None:
        text.append(f"a_{apart.var} != b_{apart.var}")
    if beyond is not None:
        text.append(f"a_{beyond[0].var} > b_{beyond[1].var}")
    points = _points(len(first.dims))
    text += [*_inside(first, "a", points), *_inside(second, "b", points)]
    names = [*_names(first, "a"), *_names(second, "b"), *points]
    return not _is_empty(f"{{ [{', '.join(names)}] : {' and '.join(text)} }}")


def uncovered(read: Region, writes: Iterable[Region], loop: Loop | None) -> bool:
    """Whether an iteration of a loop, or the kernel, may read a point that it has not written
    before.

    `writes` are regions that are completely overwritten. The order is that of the text and the
    loops.
    """
    return _uncovered(read, tuple(writes), loop)


@lru_cache(maxsize=1 << 14)
def _uncovered(read: Region, writes: tuple[Region, ...], loop: Loop | None) -> bool:
    if loop is not None and covered(read, writes, loop):
        return False
    points = _points(len(read.dims))
    outer = _names(read, "b", more=False)
    space = ", ".join([*outer, *points])
    spread = _exists(_names(read, "b")[len(outer) :])
    inside = " and ".join([*_domain(read, "b"), *_inside(read, "b", points)])
    written: list[str] = []
    for write in writes:
        shared = [s for s in read.loops if s in write.loops]
        if loop is not None and loop not in shared:
            return True
        kept = shared[: shared.index(loop) + 1] if loop is not None else []
        free = shared[len(kept) :]
        equal = [f"a_{s.var} = b_{s.var}" for s in kept]
        before = _before(write, read, free)
        if before is None or never_in_turn(write, read, kept) or lie_apart(write, read):
            continue
        body = " and ".join([*_domain(write, "a"), *equal, before, *_inside(write, "a", points)])
        written.append(f"{{ [{space}] : {_exists(_names(write, 'a'))}({body}) }}")
    if not written and certain(read):
        return True
    return _exceeds(f"{{ [{space}] : {spread}({inside}) }}", tuple(written))


@lru_cache(maxsize=1 << 14)
def _exceeds(text: str, parts: tuple[str, ...]) -> bool:
    """Whether a set may have a point that is in none of the parts.

    Results are cached by text, because similar kernels lead to the same questions.
    """
    left = _set(text)
    try:
        for part in parts:
            if left is None or left.is_empty():
                break
            subtracted = _set(part)
            left = left.subtract(subtracted) if subtracted is not None else None
        return left is None or not left.is_empty()
    except isl.Error:
        return True


def _before(first: Region, second: Region, loops: list[Loop]) -> str | None:
    """The condition that `first` runs before `second`, given their common loops; None if it never
    does."""
    cases: list[str] = []
    equal: list[str] = []
    for loop in loops:
        cases.append(" and ".join([*equal, f"a_{loop.var} < b_{loop.var}"]))
        equal.append(f"a_{loop.var} = b_{loop.var}")
    if first.position < second.position:
        cases.append(" and ".join(equal or ["1 = 1"]))
    return "(" + " or ".join(f"({c})" for c in cases) + ")" if cases else None


def _points(count: int) -> list[str]:
    return [f"p{n}" for n in range(count)]


def _names(region: Region, prefix: str, *, more: bool = True) -> list[str]:
    extra = [f"{prefix}_{name}" for name, _, _ in region.more] if more else []
    return [f"{prefix}_{s.var}" for s in region.loops] + extra


def _exists(names: list[str]) -> str:
    return f"exists {', '.join(names)} : " if names else ""


def _domain(region: Region, prefix: str) -> list[str]:
    """The iterations in which a statement runs, and the conditions of its region."""
    text = ["1 = 1"]
    path = (*region.above, region.stmt)
    for around, inner in pairwise(path):
        if isinstance(around, Loop):
            name, first = f"{prefix}_{around.var}", _text(around.lower, prefix)
            text.append(f"{first} <= {name} and {name} < {_text(around.upper, prefix)}")
            if around.step > 1:
                text.append(f"({name} - {first}) mod {around.step} = 0")
        elif isinstance(around, Guard):
            taken = any(s is inner for s in around.body)
            text.append(_condition(around.condition, prefix, taken))
    text.append(_condition(region.when, prefix, True))
    if region.unless is not None:
        text.append(_condition(region.unless, prefix, False))
    for name, low, high in region.more:
        text.append(f"{_text(low, prefix)} <= {prefix}_{name} < {_text(high, prefix)}")
    return text


def _condition(condition: Condition, prefix: str, holds: bool) -> str:
    tests = [
        f"{_text(c.left, prefix)} {_OPERATORS.get(c.op, c.op)} {_text(c.right, prefix)}"
        for c in condition
    ]
    text = " and ".join(tests) or "1 = 1"
    return f"({text})" if holds else f"not ({text})"


_OPERATORS = {"==": "="}


def _inside(region: Region, prefix: str, points: list[str]) -> list[str]:
    text = []
    for point, (first, extent) in zip(points, region.dims, strict=True):
        low = _text(first, prefix)
        text.append(f"{low} <= {point} and {point} < {low} + {_text(extent, prefix)}")
    return text


def _text(expr: Expr, prefix: str) -> str:
    parts = [str(expr.const), *(f"{c}*{_atom(a, prefix)}" for a, c in expr.terms)]
    return "(" + " + ".join(parts) + ")"


def _atom(atom: Atom, prefix: str) -> str:
    match atom:
        case Var(name):
            return f"{prefix}_{name}"
        case Quotient(of, by):
            return f"floor({_text(of, prefix)}/{by})"
        case Remainder(of, by):
            return f"({_text(of, prefix)} mod {by})"
        case Minimum(left, right):
            return f"min({_text(left, prefix)}, {_text(right, prefix)})"


@lru_cache(maxsize=1 << 14)
def _is_empty(text: str) -> bool:
    found = _set(text)
    try:
        return found is not None and bool(found.is_empty())
    except isl.Error:
        return False


def _set(text: str) -> isl.Set | None:
    """The set that a text describes; None if this takes too long."""
    context = isl.DEFAULT_CONTEXT
    context.set_max_operations(0)
    context.reset_operations()
    context.set_max_operations(MAX_OPERATIONS)
    try:
        return isl.Set(text)
    except isl.Error:
        return None
