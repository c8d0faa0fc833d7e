"""Unroll a loop, with a separate accumulator for each copy of a reduction.

Before::

    for (int c = 0; c < 992; c += 16) sum = sum + *(const vf *)&X[r][c];

After (2 copies)::

    vf sum_1 = v_splat(0.0f);
    for (int c = 0; c < 992; c += 32) {
      sum = sum + *(const vf *)&X[r][c];
      sum_1 = sum_1 + *(const vf *)&X[r][c + 16];
    }
    sum = sum + sum_1;

If the variables are doubles, which `vectorise` does not support, compilers put those of
neighbouring copies into one vector, because the order of each copy's sum is given.

A table to which a loop only adds also gets a copy for each: see `table_copies`. The copies are
cleared before, and added after, the outermost loop in which only this loop uses the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    Reduction,
    declared_names,
    fresh,
    names_in,
    reductions,
    visible_types,
)
from tilewright.proposers.loops.analysis.sharing import uses_of
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Call,
    Cast,
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
    loops,
    statements,
    with_loop,
)
from tilewright.proposers.loops.rewrites.argmax import is_search, searching
from tilewright.proposers.loops.rewrites.table_copies import tables

_FUNCTIONS = {
    ("most", "float"): "fmaxf", ("least", "float"): "fminf",
    ("most", "double"): "fmax", ("least", "double"): "fmin",
    ("most", "vector"): "v_max", ("least", "vector"): "v_min",
}  # fmt: skip


def unroll(kernel: Kernel, number: int, copies: int) -> Kernel:
    """The kernel in which loop `number` is unrolled. Raises `NotApplicableError`.

    A loop that searches for a value and its place is split into this number of searches: see
    `argmax`.
    """
    loop = loops(kernel)[number]
    if loop.limits is None and is_search(kernel, number):
        return searching(kernel, number, copies)
    if loop.trips < copies or any(isinstance(s, For) for s in loop.body):
        raise NotApplicableError("the loop has too few iterations, or contains loops")
    found = reductions(loop, visible_types(kernel, number))
    taken = names_in(kernel)
    before: list[Statement] = []
    body: list[Statement] = list(loop.body)
    after: list[Statement] = []
    added = tables(loop, kernel, copies) if loop.limits is None else []
    own = {t.name: [fresh(t.name, taken) for _ in range(1, copies)] for t in added}
    for copy in range(1, copies):
        names = {r.name: fresh(r.name, taken) for r in found}
        for r in found:
            before.append(Declare(r.type, names[r.name], (), identity(r)))
            total = Var(r.name)
            after.append(Assign(total, combined(r, total, Var(names[r.name]))))
        arrays = {name: of_copies[copy - 1] for name, of_copies in own.items()}
        body += [_elsewhere(s, arrays) for s in copied(loop, copy, names, taken)]
    if loop.limits is not None:
        new = _between_limits(loop, copies, body, before, after, taken)
        return with_loop(kernel, number, tuple(new))
    main = loop.first + loop.trips // copies * copies * loop.step
    new = [*before, replace(loop, last=main, step=copies * loop.step, body=tuple(body)), *after]
    if loop.trips % copies:
        new.append(replace(loop, first=main, threads=1))
    places = [(_only_use(t.name, kernel, number), t) for t in added]
    kernel = with_loop(kernel, number, tuple(new))
    for place in sorted({place for place, _ in places}, reverse=True):
        here = [table for at, table in places if at == place]
        cleared = [s for t in here for n in own[t.name] for s in t.cleared(n, fresh("at", taken))]
        joined = [t.joined(own[t.name], fresh("at", taken)) for t in here]
        kernel = with_loop(kernel, place, (*cleared, loops(kernel)[place], *joined))
    return kernel


def _between_limits(
    loop: For,
    copies: int,
    body: list[Statement],
    before: list[Statement],
    after: list[Statement],
    taken: set[str],
) -> list[Statement]:
    """The loop with this body for whole groups of iterations, and then the remaining iterations.

    Their number is computed without a condition. Conditions on the data that the checks do not try
    both ways make a kernel fail.
    """
    assert loop.limits is not None
    begin, end = loop.limits
    if loop.step > 1 or copies & (copies - 1):
        raise NotApplicableError("the loop is already unrolled, or not by a power of two")
    wide = Cast("int64_t", end)
    some = Binary(">>", Binary("-", Cast("int64_t", begin), end), Number("63"))  # -1, or 0 if none
    remaining = Binary("&", Binary("-", wide, begin), Number(str(copies - 1)))
    middle = Var(fresh("middle", taken))
    return [
        Declare("int", middle.name, (), Binary("-", end, Binary("&", remaining, some))),
        *before,
        replace(loop, step=copies, body=tuple(body), limits=(begin, middle)),
        *after,
        replace(loop, last=loop.first + copies // 2, limits=(middle, end)),
    ]


def _only_use(table: str, kernel: Kernel, number: int) -> int:
    """The number of the outermost loop around loop `number` (or of itself) without another use of
    the table."""
    path = around(kernel, number)
    uses = uses_of(table, path[-1].body)
    for outer in path[:-1]:
        declared = any(isinstance(s, Declare) and s.name == table for s in statements(outer.body))
        if uses_of(table, outer.body) == uses and not declared:
            return next(n for n, loop in enumerate(loops(kernel)) if loop is outer)
    return number


def _elsewhere(statement: Statement, arrays: Mapping[str, str]) -> Statement:
    """The statement in which some arrays are replaced by others."""

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Element) and expr.array in arrays:
            return Element(arrays[expr.array], expr.subscripts)
        return expr

    return changed_in(statement, change)


def copied(loop: For, copy: int, names: dict[str, str], taken: set[str]) -> list[Statement]:
    """The body for the iteration `copy` later, with separate names for the variables that it
    declares."""
    own = {name: fresh(name, taken) for name in declared_names(loop.body)}
    renamed = {**names, **own}
    later = Binary("+", Var(loop.variable), Number(str(copy * loop.step)))

    def change(expr: Expr) -> Expr:
        if expr == Var(loop.variable):
            return later
        if isinstance(expr, (Element, Load)) and expr.array in own:
            return replace(expr, array=own[expr.array])
        return Var(renamed[expr.name]) if isinstance(expr, Var) and expr.name in renamed else expr

    return [_redeclared(changed_in(s, change), own) for s in loop.body]


def _redeclared(statement: Statement, names: dict[str, str]) -> Statement:
    if isinstance(statement, Declare):
        return replace(statement, name=names[statement.name])
    if isinstance(statement, For):
        return replace(statement, body=tuple(_redeclared(s, names) for s in statement.body))
    return statement


def identity(reduction: Reduction) -> Expr:
    """The value with which another variable of a reduction begins."""
    if reduction.kind != "sum":
        return Var(reduction.name)
    if reduction.type == "double":
        return Number("0.0")
    zero = Number("0.0f")
    return Call("v_splat", (zero,)) if reduction.type == "vector" else zero


def combined(reduction: Reduction, left: Expr, right: Expr) -> Expr:
    """Two results of parts of a reduction as one."""
    if reduction.kind == "sum":
        return Binary("+", left, right)
    return Call(_FUNCTIONS[reduction.kind, reduction.type], (left, right))
