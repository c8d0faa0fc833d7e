"""Decides with integer sets (isl) whether two accesses can touch the same element of an array.

`independence.py` compares single subscripts, and only knows the range of each variable. Loops over
triangles need more::

    for (int i = 0; i < 64; i++)
      for (int j = i + 1; j < 64; j++) { C[i][j] = ..; C[j][i] = C[i][j]; }

Iterations j and k would meet where i = k and j = i, but j > i. Subscripts that are not sums of
variables of loops, and bounds that depend on data, say nothing about the elements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

import islpy as isl

from tilewright.proposers.loops.analysis.changes import assigned_in, changed_by, declared_names
from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Command,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Negative,
    Number,
    Statement,
    Var,
    path_to,
    statements,
    walk,
)

_MOST_PAIRS = 256
"""Maximum number of pairs of accesses that are compared; more are taken to meet."""
_MAX_OPERATIONS = 100_000
"""Maximum work of isl for one question, in its own unit."""


@dataclass(frozen=True, slots=True)
class Site:
    """An access with the loops around it that are inside of the examined loop."""

    access: Element | Load
    inside: tuple[For, ...]
    writes: bool


def sites(body: tuple[Statement, ...], array: str, inside: tuple[For, ...] = ()) -> Iterator[Site]:
    """All accesses of statements to an array."""
    for statement in body:
        values: list[Expr] = []
        if isinstance(statement, For):
            values = [*(statement.limits or ())]
            yield from sites(statement.body, array, (*inside, statement))
        elif isinstance(statement, Declare) and statement.value is not None:
            values = [statement.value]
        elif isinstance(statement, Assign):
            values = [statement.value]
            if not isinstance(statement.target, Var):
                values += statement.target.subscripts
                if statement.target.array == array:
                    yield Site(statement.target, inside, writes=True)
        for expr in (e for value in values for e in walk(value)):
            if isinstance(expr, (Element, Load)) and expr.array == array:
                yield Site(expr, inside, writes=False)


def iterations_meet(loop: For, kernel: Kernel, array: str, changing: Collection[str] = ()) -> bool:
    """Whether two iterations of a loop may touch the same element of an array, and one writes it.

    Variables in `changing` may differ between two iterations.
    """
    found = [*sites(loop.body, array)]
    pairs = [(one, other) for one in found if one.writes for other in found]
    question = _Question(loop, kernel, changing)
    if question.refused or len(pairs) > _MOST_PAIRS:
        return True
    return any(question.meet(*pair, apart=True) for pair in pairs)


def touches(loop: For, kernel: Kernel, fixed: Element, site: Site) -> bool:
    """Whether an access in a loop may touch an element that is the same in all iterations."""
    question = _Question(loop, kernel, ())
    return question.meet(Site(fixed, (), writes=True), site, apart=False)


class _Question:
    """Writes questions about the iterations of a loop of a kernel for isl.

    The variables of loops in `apart` may differ between the two accesses. Nothing is known, and
    questions are `refused`, if the loop contains commands or gives a variable of a loop a value.
    """

    def __init__(self, loop: For, kernel: Kernel, changing: Collection[str]) -> None:
        self._loop = loop
        self._kernel = kernel
        self._terms: dict[Expr, str] = {}
        self._around = path_to(loop, kernel.body)[:-1]
        inner = {s.variable for s in statements(loop.body) if isinstance(s, For)}
        self._unknown = (changed_by(loop) | {*changing}) - {loop.variable}
        outer = {o.variable for o in (*self._around, loop)}
        self.apart = {loop.variable} | (outer & {*changing})
        others = assigned_in(loop.body) | {*declared_names(loop.body)}
        self.refused = (
            any(isinstance(s, Command) for s in statements(loop.body))
            or bool((outer | inner) & others)
            or bool(outer & inner)
        )

    def meet(self, one: Site, other: Site, *, apart: bool) -> bool:
        """Whether the accesses may touch the same element, in different iterations if `apart`."""
        if self.refused or len(one.access.subscripts) != len(other.access.subscripts):
            return True
        first, second = _Side("0", one, self), _Side("1", other, self)
        known = [
            side.bounds(o)
            for side in (first, second)
            for o in (self._loop, *side.site.inside, *self._around)
        ]
        lanes = self._kernel.lanes
        last = len(one.access.subscripts) - 1
        for place, pair in enumerate(
            zip(one.access.subscripts, other.access.subscripts, strict=True)
        ):
            left, right = first.sum(pair[0]), second.sum(pair[1])
            if left is None or right is None:
                continue
            less, more = (
                (lanes - 1) * (place == last and isinstance(side.site.access, Load))
                for side in (second, first)
            )
            known.append(f"-{less} <= ({right}) - ({left}) <= {more}")
        if apart:
            here = self._loop.variable
            known.append(f"({here}_0 < {here}_1 or {here}_1 < {here}_0)")
        names = ", ".join(sorted(first.names | second.names))
        return not _is_empty(f"{{ [{names}] : {' and '.join(k for k in known if k)} }}")

    def constant(self, term: Expr) -> str | None:
        """A name for a term that has the same value in all iterations of the loop."""
        used = [e for e in walk(term) if not isinstance(e, (Binary, Negative, Number))]
        if not all(isinstance(e, Var) and self.is_outside(e.name) for e in used):
            return None
        return self._terms.setdefault(term, f"term{len(self._terms)}_")

    def is_outside(self, name: str) -> bool:
        """Whether a variable has the same value in all iterations of the loop."""
        return name not in self._unknown and name != self._loop.variable


class _Side:
    """One of the two accesses. The variables that may differ end with its `mark`."""

    def __init__(self, mark: str, site: Site, question: _Question) -> None:
        self.site = site
        self.names: set[str] = set()
        self._mark = mark
        self._question = question
        self._inside = {o.variable for o in site.inside}

    def sum(self, expr: Expr) -> str | None:
        """A sum of variables as text, or None if it contains anything else."""
        terms, offset = linear(expr)
        parts = [str(offset)]
        for term, factor in terms.items():
            name = self._name(term.name) if isinstance(term, Var) else self._question.constant(term)
            if name is None:
                return None
            self.names.add(name)
            parts.append(f"{factor} * {name}")
        return " + ".join(parts)

    def _name(self, name: str) -> str | None:
        """A name for the value of a variable at this access, or None if nothing is known of it."""
        if name in self._inside or name in self._question.apart:
            return f"{name}_{self._mark}"
        return f"{name}_" if self._question.is_outside(name) else None

    def bounds(self, loop: For) -> str:
        """What is known of the variable of a loop."""
        name = self._name(loop.variable)
        assert name is not None
        self.names.add(name)
        known = []
        if loop.limits is None or loop.bounded:
            known.append(f"{loop.range[0]} <= {name} <= {loop.range[1]}")
        begin: str | None = str(loop.first)
        if loop.limits is not None:
            begin, end = (self.sum(limit) for limit in loop.limits)
            known += [f"{name} >= {begin}"] * (begin is not None)
            known += [f"{name} < {end}"] * (end is not None)
        if loop.step > 1 and begin is not None:
            known.append(f"({name} - ({begin})) mod {loop.step} = 0")
        return " and ".join(known)


@lru_cache(maxsize=1 << 12)
def _is_empty(text: str) -> bool:
    """Whether a set is certainly empty."""
    context = isl.DEFAULT_CONTEXT
    before = context.get_max_operations()
    context.set_max_operations(_MAX_OPERATIONS)
    context.reset_operations()
    try:
        return bool(isl.Set.read_from_str(context, text).is_empty())
    except isl.Error:
        return False
    finally:
        context.set_max_operations(before)
        context.reset_operations()
