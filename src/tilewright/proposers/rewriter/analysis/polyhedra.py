"""Decides dependence exactly with integer sets (isl): which iterations access the same rows or
elements.

Questions that intervals decide are answered at once (`intervals.py`). All others are written as
text for isl and answered with yes or no. If isl exceeds its limit of work, so that no question
takes long, the conservative answer is returned: there may be a dependence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from math import prod

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
from tilewright.proposers.rewriter.expr import (
    Atom,
    Expr,
    Minimum,
    Quotient,
    Remainder,
    Var,
    quotient,
)
from tilewright.proposers.rewriter.ir import Condition, Guard, Loop

MAX_OPERATIONS = 200_000
"""Maximum work of isl for one question, in its own unit: about 50 milliseconds."""
MAX_LIMITS = 8
"""Maximum number of limits that replace one limit with minimums."""


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of a region's variables in the text for isl: a prefix and the variable.

    Variables in `shared` have their own prefixes. The dimension of a loop in `counted` is the
    number of its iteration. Otherwise, isl would need one more variable for each loop whose step is
    not 1.
    """

    prefix: str
    shared: Mapping[str, str]
    counted: Mapping[str, Loop]

    def dim(self, name: str) -> str:
        """The dimension of a variable."""
        return f"{self.shared.get(name, self.prefix)}_{name}"

    def value(self, name: str) -> str:
        """The value of a variable."""
        loop = self.counted.get(name)
        return self.dim(name) if loop is None else _count(loop, self.dim(name))


def _count(loop: Loop, iteration: str) -> str:
    return f"({loop.lower.const} + {loop.step}*{iteration})"


def _counted(region: Region) -> Mapping[str, Loop]:
    return {s.var: s for s in region.loops if s.step > 1 and s.lower.is_const}


def _are_distinct(regions: Iterable[Region]) -> bool:
    """Whether each variable belongs to a single loop in each region."""
    return all(len({s.var for s in r.loops}) == len(r.loops) for r in regions)


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
    shared = {s.var: "c" for s in same}
    counts = _are_distinct((first, second)) and all(
        s in r.loops for r in (first, second) for s in same
    )
    mine = _Names("a", shared, _counted(first) if counts else {})
    theirs = _Names("b", shared, _counted(second) if counts else {})
    text = [*_domain(first, mine), *_domain(second, theirs)]
    if apart is not None:
        text.append(f"{mine.value(apart.var)} != {theirs.value(apart.var)}")
    if beyond is not None:
        text.append(f"{mine.value(beyond[0].var)} > {theirs.value(beyond[1].var)}")
    points = _points(len(first.dims))
    text += [*_inside(first, mine, points), *_inside(second, theirs, points)]
    names = dict.fromkeys([*_dims(first, mine), *_dims(second, theirs), *points])
    return not _is_empty(f"{{ [{', '.join(names)}] : {_all(text)} }}")


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
    counts = _are_distinct((read, *writes))
    reading = _Names("b", {}, _counted(read) if counts else {})
    outer = _dims(read, reading, more=False)
    space = ", ".join([*outer, *points])
    spread = _exists(_dims(read, reading)[len(outer) :])
    inside = _all([*_domain(read, reading), *_inside(read, reading, points)])
    written: list[str] = []
    for write in writes:
        shared = [s for s in read.loops if s in write.loops]
        if loop is not None and loop not in shared:
            return True
        kept = shared[: shared.index(loop) + 1] if loop is not None else []
        free = shared[len(kept) :]
        writing = _Names("a", {s.var: "b" for s in kept}, _counted(write) if counts else {})
        before = _before((write, writing), (read, reading), free)
        if before is None or never_in_turn(write, read, kept) or lie_apart(write, read):
            continue
        own = [n for n in _dims(write, writing) if n not in outer]
        body = _all([*_domain(write, writing), before, *_inside(write, writing, points)])
        written.append(f"{{ [{space}] : {_exists(own)}({body}) }}")
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


def _before(
    first: tuple[Region, _Names], second: tuple[Region, _Names], loops: list[Loop]
) -> str | None:
    """The condition that the first region's statement runs before the second's, given their common
    loops; None if it never does."""
    cases: list[str] = []
    equal: list[str] = []
    for loop in loops:
        earlier, later = first[1].value(loop.var), second[1].value(loop.var)
        cases.append(_all([*equal, f"{earlier} < {later}"]))
        equal.append(f"{earlier} = {later}")
    if first[0].position < second[0].position:
        cases.append(_all(equal))
    return "(" + " or ".join(f"({c})" for c in cases) + ")" if cases else None


def _points(count: int) -> list[str]:
    return [f"p{n}" for n in range(count)]


def _dims(region: Region, names: _Names, *, more: bool = True) -> list[str]:
    extra = [names.dim(name) for name, _, _ in region.more] if more else []
    return [names.dim(s.var) for s in region.loops] + extra


def _exists(names: list[str]) -> str:
    return f"exists {', '.join(names)} : " if names else ""


def _all(tests: Iterable[str]) -> str:
    """A condition that all of the tests are true, each of which is written once."""
    return " and ".join(dict.fromkeys(tests)) or "1 = 1"


def _domain(region: Region, names: _Names) -> list[str]:
    """The iterations in which a statement runs, and the conditions of its region."""
    text = []
    path = (*region.above, region.stmt)
    for around, inner in pairwise(path):
        if isinstance(around, Loop):
            value = names.value(around.var)
            if around.var in names.counted:
                text.append(f"0 <= {names.dim(around.var)}")
            else:
                first = _text(around.lower, names)
                text.append(f"{first} <= {value}")
                if around.step > 1:
                    text.append(f"({value} - {first}) mod {around.step} = 0")
            text += _below(value, around.upper, names)
        elif isinstance(around, Guard):
            taken = any(s is inner for s in around.body)
            text += _condition(around.condition, names, taken)
    text += _condition(region.when, names, True)
    if region.unless is not None:
        text += _condition(region.unless, names, False)
    for name, low, high in region.more:
        point = names.dim(name)
        text += [f"{_text(low, names)} <= {point}", *_below(point, high, names)]
    return text


def _condition(condition: Condition, names: _Names, holds: bool) -> list[str]:
    tests = [
        f"{_text(c.left, names)} {_OPERATORS.get(c.op, c.op)} {_text(c.right, names)}"
        for c in condition
    ]
    return tests if holds else [f"not ({_all(tests)})"]


_OPERATORS = {"==": "="}


def _inside(region: Region, names: _Names, points: list[str]) -> list[str]:
    text = []
    for point, (first, extent) in zip(points, region.dims, strict=True):
        text += [f"{_text(first, names)} <= {point}", *_below(point, first + extent, names)]
    return text


def _below(value: str, limit: Expr, names: _Names) -> list[str]:
    """That a variable is less than a limit.

    `x < min(a, b)` is written `x < a and x < b`, because isl would divide the set into two.
    """
    return [f"{value} < {_text(part, names)}" for part in _least_of(limit)]


def _least_of(expr: Expr) -> tuple[Expr, ...]:
    """Expressions of which the smallest is always equal to the given one; only the given one if
    they are too many, or if it does not increase with each of its minimums."""
    found = [
        _least_of_atom(atom) if coefficient > 0 else (Expr(0, ((atom, 1),)),)
        for atom, coefficient in expr.terms
    ]
    if not 1 < prod(map(len, found)) <= MAX_LIMITS:
        return (expr,)
    factors = [coefficient for _, coefficient in expr.terms]
    return tuple(
        Expr(expr.const) + sum((e * f for e, f in zip(way, factors, strict=True)), Expr())
        for way in product(*found)
    )


def _least_of_atom(atom: Atom) -> tuple[Expr, ...]:
    match atom:
        case Minimum(left, right):
            return (*_least_of(left), *_least_of(right))
        case Quotient(of, by):
            return tuple(quotient(part, by) for part in _least_of(of))
    return (Expr(0, ((atom, 1),)),)


def _text(expr: Expr, names: _Names) -> str:
    parts = [str(expr.const), *(f"{c}*{_atom(a, names)}" for a, c in expr.terms)]
    return "(" + " + ".join(parts) + ")"


def _atom(atom: Atom, names: _Names) -> str:
    match atom:
        case Var(name):
            return names.value(name)
        case Quotient(of, by):
            return f"floor({_text(of, names)}/{by})"
        case Remainder(of, by):
            return f"({_text(of, names)} mod {by})"
        case Minimum(left, right):
            return f"min({_text(left, names)}, {_text(right, names)})"


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
