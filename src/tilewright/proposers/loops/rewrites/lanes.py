"""Run several iterations of a loop side by side, each in a lane of its own.

Before::

    for (int i = 0; i < 1000; i++) {
      uint32_t state = seed[i];
      for (int t = 0; t < 64; t++) state = state * 1664525u + 1013904223u;
      out[i] = state;
    }

After (16 lanes)::

    for (int i = 0; i < 992; i += 16) {
      uint32_t state[16];
      for (int lane_1 = 0; lane_1 < 16; lane_1++) state[lane_1] = seed[i + lane_1];
      for (int t = 0; t < 64; t++)
        for (int lane_1 = 0; lane_1 < 16; lane_1++)
          state[lane_1] = state[lane_1] * 1664525u + 1013904223u;
      for (int lane_1 = 0; lane_1 < 16; lane_1++) out[i + lane_1] = state[lane_1];
    }
    for (int i = 992; i < 1000; i++) { .. as before .. }

Compilers turn the loops over lanes into vectors and keep the small arrays in registers, for every
type and also where elements are read at computed places. `vectorise`, in contrast, writes vectors
of floats itself. What is the same in all lanes stays a scalar. A sum, or a largest or smallest
value, is found for each lane, and the lanes are combined after the loop.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    Reduction,
    arrays_in,
    fresh,
    names_in,
    reductions,
    visible_types,
)
from tilewright.proposers.loops.analysis.independence import require_independent
from tilewright.proposers.loops.analysis.sharing import uses_in
from tilewright.proposers.loops.c_types import BYTES
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
    Number,
    Select,
    Statement,
    Var,
    around,
    changed_in,
    expressions,
    loops,
    statements,
    walk,
    with_loop,
)
from tilewright.proposers.loops.rewrites.parallelise import private
from tilewright.proposers.loops.rewrites.unroll import combined, identity
from tilewright.proposers.loops.rewrites.unroll_and_jam import with_names

_MOST_BYTES = 1 << 15
"""Maximum size of the arrays of all lanes, so that they stay in the first-level cache."""


def lanes(kernel: Kernel, number: int, count: int) -> Kernel:
    """The kernel in which `count` iterations of loop `number` run side by side.

    Raises `NotApplicableError`.
    """
    path = around(kernel, number)
    loop = path[-1]
    varying = [s for s in statements((loop,)) if isinstance(s, For) and s.limits is not None]
    if loop.limits is not None and (_is_simple(loop) or not all(s.bounded for s in varying)):
        return with_loop(kernel, number, tuple(_until_limit(kernel, number, count)))
    if loop.trips < count or count & (count - 1):
        raise NotApplicableError("the loop has too few iterations for this number of lanes")
    _require_scalars(loop)
    outside = private(kernel, path)
    declared = [s for s in statements(loop.body) if isinstance(s, Declare)]
    if any(s.sizes for s in declared if sum(s.name == d.name for d in declared) > 1):
        raise NotApplicableError("two arrays in the loop have the same name")
    arrays = arrays_in(loop.body)
    names = {s.name for s in outside}
    found = reductions(loop, visible_types(kernel, number), names)
    require_independent(loop, kernel, {*names, *arrays})
    taken = names_in(kernel)
    partial = {r.name: fresh(r.name, taken) for r in found}
    own = {name: fresh(name, taken) for name in sorted(names)}
    lane = fresh("lane", taken)
    body = (
        *(replace(s, name=own[s.name], value=None) for s in outside),
        *(with_names(s, {**partial, **own}) for s in loop.body),
    )
    within = replace(loop, body=body)
    made = _Lanes(within, count, lane, {*partial.values()}).converted()
    main, rest = _divided(loop, count)
    new = (
        *_begun(found, partial, lane, count),
        replace(main, body=made),
        *_ended(found, partial, lane, count),
    )
    if rest is not None:  # these iterations still use the variables outside
        return with_loop(kernel, number, (*new, rest))
    return _without(with_loop(kernel, number, new), outside)


def _divided(loop: For, count: int) -> tuple[For, For | None]:
    """A loop in steps of `count` iterations, and the loop over the remaining ones, if any."""
    if loop.limits is None:
        main = loop.first + loop.trips // count * count * loop.step
        rest = replace(loop, first=main, threads=1) if main < loop.last else None
        return replace(loop, last=main, step=count * loop.step), rest
    if loop.step > 1:
        raise NotApplicableError(
            "the bounds of the loop depend on an outer loop, and its step is not 1",
        )
    begin, end = loop.limits
    length = Binary("-", end, begin)
    passed = Binary("*", Binary("/", length, Number(str(count))), Number(str(count)))
    whole: Expr = Binary("-", end, Number(str(count - 1)))
    if isinstance(end, Number) and int(end.text) >= count:
        whole = Number(str(int(end.text) - count + 1))
    return (
        replace(loop, step=count, limits=(begin, whole)),
        replace(loop, threads=1, limits=(Binary("+", begin, passed), end)),
    )


def _is_simple(loop: For) -> bool:
    """Whether a loop only computes values of variables."""
    return all(
        (isinstance(s, Declare) and not s.sizes)
        or (isinstance(s, Assign) and isinstance(s.target, Var))
        for s in loop.body
    )


def _until_limit(kernel: Kernel, number: int, count: int) -> list[Statement]:
    """A loop whose bounds depend on data, in lanes: lanes beyond the end keep their values, so that
    no iterations remain."""
    loop = loops(kernel)[number]
    assert loop.limits is not None
    end = loop.limits[1]
    if loop.step > 1 or not _is_simple(loop) or count & (count - 1):
        raise NotApplicableError("only sums of single values are computed in lanes here")
    _require_scalars(loop)
    found = reductions(loop, visible_types(kernel, number))
    taken = names_in(kernel)
    partial = {r.name: fresh(r.name, taken) for r in found}
    lane = fresh("lane", taken)
    within = replace(loop, body=tuple(with_names(s, partial) for s in loop.body))
    made = _Lanes(within, count, lane, {*partial.values()}).converted()
    inside = Binary("<", Binary("+", Var(loop.variable), Var(lane)), end)
    guarded = tuple(_guarded(s, inside) for s in made)
    main = replace(loop, step=count, body=guarded)
    return [*_begun(found, partial, lane, count), main, *_ended(found, partial, lane, count)]


def _guarded(statement: Statement, condition: Expr) -> Statement:
    """The loop over lanes in which a lane keeps its value where a condition is false."""
    if not isinstance(statement, For):
        return statement
    body: list[Statement] = []
    for s in statement.body:
        if isinstance(s, Declare) and s.value is not None:
            body.append(replace(s, value=Select(condition, s.value, Number("0"))))
        elif isinstance(s, Assign):
            body.append(Assign(s.target, Select(condition, s.value, s.target)))
        else:
            body.append(s)
    return replace(statement, body=tuple(body))


def _begun(
    found: Collection[Reduction], partial: Mapping[str, str], lane: str, count: int
) -> Iterator[Statement]:
    """The arrays of all lanes of reductions, with their first values."""
    for r in found:
        target = Element(partial[r.name], (Var(lane),))
        yield Declare(r.type, partial[r.name], (count,))
        yield For(lane, 0, count, 1, (Assign(target, identity(r)),))


def _ended(
    found: Collection[Reduction], partial: Mapping[str, str], lane: str, count: int
) -> Iterator[Statement]:
    for r in found:
        yield from _joined(r, partial[r.name], lane, count)


def _require_scalars(loop: For) -> None:
    """Raise if a loop contains commands or vectors."""
    for statement in statements(loop.body):
        if isinstance(statement, Command):
            raise NotApplicableError("the loop contains commands")
        if isinstance(statement, Declare) and statement.type == "vector":
            raise NotApplicableError("the loop already contains vectors")
    if any(isinstance(e, Load) for e in expressions(loop.body)):
        raise NotApplicableError("the loop already contains vectors")


def _without(kernel: Kernel, declarations: Collection[Declare]) -> Kernel:
    """The kernel without declarations that are no longer used."""

    def kept(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(
            replace(s, body=kept(s.body)) if isinstance(s, For) else s
            for s in body
            if not any(s is other for other in declarations)
        )

    return replace(kernel, body=kept(kernel.body))


def _joined(reduction: Reduction, partial: str, lane: str, count: int) -> list[Statement]:
    """Combines the lanes in pairs, and then the result with the value from before the loop."""
    made: list[Statement] = []
    while count > 1:
        count //= 2
        here = Element(partial, (Var(lane),))
        other = Element(partial, (Binary("+", Var(lane), Number(str(count))),))
        made.append(For(lane, 0, count, 1, (Assign(here, combined(reduction, here, other)),)))
    first = Element(partial, (Number("0"),))
    total = Var(reduction.name)
    return [*made, Assign(total, combined(reduction, total, first))]


class _Lanes:
    """Converts the body of one iteration to that of `count` iterations.

    `varying` are variables and arrays that differ between the iterations.
    """

    def __init__(self, loop: For, count: int, lane: str, partial: Collection[str]) -> None:
        self._loop = loop
        self._count = count
        self._lane = Var(lane)
        self._varying = {loop.variable, *partial}
        self._arrays = {s.name for s in statements(loop.body) if isinstance(s, Declare) and s.sizes}
        self._uses = uses_in(loop.body)
        self._whole: set[str] = {*partial}
        """Variables that became arrays."""
        while self._spread():
            pass
        sizes = [
            BYTES.get(s.type, 4) * self._count * math.prod(s.sizes)
            for s in statements(loop.body)
            if isinstance(s, Declare) and s.name in self._varying
        ]
        if sum(sizes) > _MOST_BYTES:
            raise NotApplicableError("the arrays of all lanes would be too large")

    def converted(self) -> tuple[Statement, ...]:
        """The statements of all lanes."""
        return tuple(self._body(self._loop.body))

    def _spread(self) -> bool:
        """Adds all variables and arrays that are computed from varying values. Returns whether any
        were added.
        """
        known = len(self._varying)
        for s in statements(self._loop.body):
            if isinstance(s, Declare) and s.value is not None and self._varies(s.value):
                self._varying.add(s.name)
            elif isinstance(s, Assign) and (self._varies(s.value) or self._varies(s.target)):
                self._varying.add(s.target_name)
        return len(self._varying) > known

    def _varies(self, expr: Expr) -> bool:
        return any(
            (isinstance(e, Var) and e.name in self._varying)
            or (isinstance(e, Element) and e.array in self._varying)
            for e in walk(expr)
        )

    def _body(self, body: tuple[Statement, ...]) -> list[Statement]:
        made: list[Statement] = []
        run: list[Declare | Assign] = []
        for statement in body:
            if isinstance(statement, For):
                if any(self._varies(limit) for limit in statement.limits or ()):
                    raise NotApplicableError(
                        "the number of iterations of an inner loop differs between lanes",
                    )
                made += self._flushed(run)
                run = []
                made.append(replace(statement, body=tuple(self._body(statement.body))))
            elif isinstance(statement, Declare) and statement.name not in self._varying:
                made.append(statement)
            elif isinstance(statement, Declare) and statement.sizes:
                made.append(replace(statement, sizes=(*statement.sizes, self._count)))
            elif isinstance(statement, Assign) and statement.target_name not in self._varying:
                made += self._flushed(run)
                run = []
                made.append(statement)
            else:
                assert isinstance(statement, (Declare, Assign))
                run.append(statement)
        return made + self._flushed(run)

    def _flushed(self, run: list[Declare | Assign]) -> list[Statement]:
        """The loop over the lanes of some statements, after the arrays that they need."""
        if not run:
            return []
        arrays: list[Statement] = []
        inside: list[Statement] = []
        within = uses_in(tuple(run))
        for s in run:
            if isinstance(s, Declare) and self._uses[s.name] > within[s.name]:
                self._whole.add(s.name)
                arrays.append(replace(s, sizes=(self._count,), value=None))
                if s.value is not None:
                    inside.append(Assign(Var(s.name), s.value))
            else:
                inside.append(s)
        if not inside:
            return arrays
        body = tuple(changed_in(s, self._of_lane) for s in inside)
        return [*arrays, For(self._lane.name, 0, self._count, 1, body)]

    def _of_lane(self, expr: Expr) -> Expr:
        if isinstance(expr, Var) and expr.name == self._loop.variable:
            step = self._loop.step
            place = self._lane if step == 1 else Binary("*", self._lane, Number(str(step)))
            return Binary("+", expr, place)
        if isinstance(expr, Var) and expr.name in self._whole:
            return Element(expr.name, (self._lane,))
        if isinstance(expr, Element) and expr.array in self._arrays & self._varying:
            return Element(expr.array, (*expr.subscripts, self._lane))
        return expr
