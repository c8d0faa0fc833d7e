"""Compute vectors of neighbouring elements from vectors that were loaded already.

Before (16 lanes, Y is another array than X)::

    for (int x = 16; x < 496; x += 16)
      *(vf *)&Y[x] = *(const vf *)&X[x - 1] + *(const vf *)&X[x + 1];

After::

    vf X_1 = *(const vf *)&X[0];
    vf X_2 = *(const vf *)&X[16];
    for (int x = 16; x < 496; x += 16) {
      vf X_3 = *(const vf *)&X[x + 16];
      *(vf *)&Y[x] = v_across(X_1, X_2, 15) + v_across(X_2, X_3, 1);
      X_1 = X_2;
      X_2 = X_3;
    }

The loop loads each vector once, and at a multiple of its size if possible. A vector at any other
place lies in two lines of the cache, so that loading it takes twice as long. Iterations in which
the additional vector would end beyond its row stay as they are, in a loop of their own. Each
iteration of short loops inside, such as those over the neighbours, is written separately.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    changed_by,
    fresh,
    names_in,
    used_by,
)
from tilewright.proposers.loops.analysis.independence import is_inside
from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Call,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Number,
    Statement,
    Var,
    around,
    changed_in,
    expressions,
    loops,
    statements,
    with_loop,
)
from tilewright.proposers.loops.rewrites.split import written_out

_MOST_WRITTEN_OUT = 7
"""Maximum number of iterations of a loop inside that are written separately."""
_MOST_STATEMENTS = 100
_LEAST_ITERATIONS = 2
"""A loop with fewer iterations uses no vector again."""


def neighbours(kernel: Kernel, number: int) -> Kernel:
    """The kernel in which loop `number` loads each vector of floats once.

    Raises `NotApplicableError`.
    """
    kernel = _without_inner_loops(kernel, number)
    path = around(kernel, number)
    loop, lanes = path[-1], kernel.lanes
    if not lanes or loop.step != lanes or loop.limits is not None or loop.threads > 1:
        raise NotApplicableError("this is not a loop over vectors")
    if any(not isinstance(s, (Declare, Assign)) for s in loop.body):
        raise NotApplicableError("the loop contains more than assignments")
    rows = [row for row in _rows(loop, lanes) if len(row.places) > 1]
    if not rows:
        raise NotApplicableError("the loop loads no overlapping vectors")
    short = max(_iterations_beyond(row, path, kernel) for row in rows)
    if loop.trips - short < _LEAST_ITERATIONS:
        raise NotApplicableError("the loop has too few iterations")
    taken = names_in(kernel)
    before: list[Statement] = []
    loaded: list[Statement] = []
    moved: list[Statement] = []
    instead: dict[Expr, Expr] = {}
    begin = Number(str(loop.first))
    for row in rows:
        names = [Var(fresh(row.array, taken)) for _ in row.blocks]
        for place, name in zip(row.blocks[:-1], names, strict=False):
            earlier = Load(row.array, row.subscripts(place, begin))
            before.append(Declare("vector", name.name, (), earlier))
        here = Load(row.array, row.subscripts(row.blocks[-1], Var(loop.variable)))
        loaded.append(Declare("vector", names[-1].name, (), here))
        moved += [Assign(one, other) for one, other in pairwise(names)]
        for place, loads in row.places.items():
            block, distance = divmod(place - row.blocks[0], lanes)
            value: Expr = names[block]
            if distance:
                parts = (value, names[block + 1], Number(str(distance)))
                value = Call("v_across", parts)
            instead.update(dict.fromkeys(loads, value))
    body = tuple(changed_in(s, lambda e: instead.get(e, e)) for s in loop.body)
    last = loop.first + (loop.trips - short) * loop.step
    new = [*before, replace(loop, last=last, body=(*loaded, *body, *moved))]
    if short:
        new.append(replace(loop, first=last))
    return with_loop(kernel, number, tuple(new))


def _without_inner_loops(kernel: Kernel, number: int) -> Kernel:
    """The kernel with each iteration of the short loops in loop `number` written separately."""
    inner = [s for s in statements(loops(kernel)[number].body) if isinstance(s, For)]
    while inner:
        if any(s.limits is not None or s.trips > _MOST_WRITTEN_OUT for s in inner):
            raise NotApplicableError("a loop inside has many iterations")
        kernel = written_out(kernel, number + len(inner))  # the last one contains no other loop
        inner = [s for s in statements(loops(kernel)[number].body) if isinstance(s, For)]
        if sum(1 for _ in statements(loops(kernel)[number].body)) > _MOST_STATEMENTS:
            raise NotApplicableError("the loops inside have too many iterations")
    return kernel


class _Row:
    """Overlapping or adjacent vectors that differ only in their place in one row of an array.

    `places` are the numbers that are added to the loop's variable, each with its loads, and
    `blocks` those of the vectors that cover them, in ascending order, at multiples of the vector
    size if one of the loads is there in the `first` iteration.
    """

    def __init__(self, places: dict[int, list[Load]], loop: For, lanes: int) -> None:
        example = places[min(places)][0]
        self.array = example.array
        self.places = places
        self._outer = example.subscripts[:-1]
        self._variable = Var(loop.variable)
        terms = linear(example.subscripts[-1])[0]
        self._others = [(t, factor) for t, factor in terms.items() if t != self._variable]
        least, most = min(places), max(places)
        aligned = (place for place in places if (loop.first + place) % lanes == 0)
        begin = next(aligned, least)
        begin -= -(-(begin - least) // lanes) * lanes
        self.blocks = range(begin, most + lanes, lanes)

    def subscripts(self, place: int, variable: Expr) -> tuple[Expr, ...]:
        """The subscripts of the element at a place, for a value of the loop's variable."""
        found: Expr = variable
        if isinstance(variable, Number):
            place += int(variable.text)
            found = Number(str(place))
        elif place:
            found = Binary("+" if place > 0 else "-", variable, Number(str(abs(place))))
        for term, factor in self._others:
            value = term if factor == 1 else Binary("*", term, Number(str(factor)))
            found = Binary("+", value, found)
        return (*self._outer, found)


def _rows(loop: For, lanes: int) -> Iterator[_Row]:
    """The vectors that a loop may load earlier, by rows, where it loads several of a row."""
    variable = Var(loop.variable)
    changing = changed_by(loop) | {s.target_name for s in loop.body if isinstance(s, Assign)}
    rows: dict[object, dict[int, list[Load]]] = {}
    for load in expressions(loop.body):
        if not isinstance(load, Load) or load.converts or load.array in changing:
            continue
        *outer, (terms, place) = map(linear, load.subscripts)
        others = [term for found, _ in outer for term in found]
        others += [term for term in terms if term != variable]
        if terms.get(variable) != 1 or changing & {n for term in others for n in used_by(term)}:
            continue
        key = load.array, *(frozenset([*found.items(), (None, by)]) for found, by in outer)
        places = rows.setdefault((key, frozenset(terms.items())), {})
        places.setdefault(place, []).append(load)
    for places in rows.values():
        together: dict[int, list[Load]] = {}
        for place in sorted(places):
            if together and place - max(together) > lanes:
                yield _Row(together, loop, lanes)
                together = {}
            together[place] = places[place]
        yield _Row(together, loop, lanes)


def _iterations_beyond(row: _Row, path: list[For], kernel: Kernel) -> int:
    """The number of last iterations in which a block would end beyond its array: at most one,
    because the last block ends less than one vector after the loads.

    Raises `NotApplicableError` if the first block begins in front of the array.
    """
    loop, lanes = path[-1], kernel.lanes
    for short in range(min(loop.trips, 2)):
        shorter = replace(loop, last=loop.first + (loop.trips - short) * loop.step)
        ends = (row.blocks[0], row.blocks[-1] + lanes - 1)
        elements = (Element(row.array, row.subscripts(p, Var(loop.variable))) for p in ends)
        if all(is_inside(e, [*path[:-1], shorter], kernel) for e in elements):
            return short
    raise NotApplicableError(f"vectors may extend beyond the ends of {row.array}")
