"""Keep an array element that a loop reads and writes repeatedly in a variable.

Before::

    for (int k = 0; k < 64; k++) C[i][j] = C[i][j] + A[i][k] * B[k][j];

After::

    float C_1 = C[i][j];
    for (int k = 0; k < 64; k++) C_1 = C_1 + A[i][k] * B[k][j];
    C[i][j] = C_1;

A value that each iteration leaves for the next one is also kept. Before::

    for (int i = 1; i < 64; i++) Y[i] = Y[i - 1] + X[i];

After::

    float Y_1 = Y[0];
    for (int i = 1; i < 64; i++) {
      Y_1 = Y_1 + X[i];
      Y[i] = Y_1;
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    changed_by,
    declared_names,
    fresh,
    names_in,
)
from tilewright.proposers.loops.analysis.conflicts import sites, touches
from tilewright.proposers.loops.analysis.independence import is_inside
from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.ir import (
    Address,
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
    Type,
    Var,
    around,
    changed,
    changed_in,
    expressions,
    loops,
    statements,
    walk,
    with_loop,
)
from tilewright.proposers.loops.rewrites.vectors import unconditional


def keep(kernel: Kernel, number: int) -> Kernel:
    """The kernel in which loop `number` keeps an array element in a variable.

    Raises `NotApplicableError`.
    """
    loop = loops(kernel)[number]
    if loop.threads > 1 or not loop.trips:
        raise NotApplicableError("the loop is shared among threads, or has no iterations")
    if any(isinstance(s, Command) for s in statements(loop.body)):
        raise NotApplicableError("commands may use the same memory")
    own = declared_names(loop.body)  # these arrays exist inside of the loop only
    types = {name: kind for name, kind in _types(kernel).items() if name not in own}
    written = [s.target for s in statements(loop.body) if isinstance(s, Assign)]
    for target in written:
        if not isinstance(target, Element) or target.array not in types:
            continue
        kept = Var(fresh(target.array, names_in(kernel)))
        new = _same(kernel, loop, target, kept)
        if loop.limits is not None:  # perhaps no iteration reads the element
            new = new if is_inside(target, around(kernel, number)[:-1], kernel) else None
        else:
            new = new or _carried(kernel, loop, target, kept)
        if new is not None:
            before, body, after = new
            declared = Declare(types[target.array], kept.name, (), before)
            return with_loop(kernel, number, (declared, replace(loop, body=body), *after))
    raise NotApplicableError("no element is read and written in every iteration")


_Kept = tuple[Element, tuple[Statement, ...], tuple[Statement, ...]]
"""The first value of the variable, the body of the loop, and the statements after it."""


def _types(kernel: Kernel) -> dict[str, Type]:
    """Types of arrays that are declared only once."""
    found: dict[str, Type] = {}
    for array in (*kernel.parameters, *kernel.scratch):
        found[array.name] = array.type
    declared = [s for s in statements(kernel.body) if isinstance(s, Declare) and s.sizes]
    names = [s.name for s in declared]
    found.update({s.name: s.type for s in declared if names.count(s.name) == 1})
    return {name: kind for name, kind in found.items() if kind != "vector"}


def _uses(body: tuple[Statement, ...], array: str) -> list[Expr]:
    return [
        e for e in expressions(body) if isinstance(e, (Element, Load, Address)) and e.array == array
    ]


def _is_plain(target: Element, changing: set[str]) -> bool:
    """Whether the place of an element depends only on variables that do not change."""
    parts = [part for subscript in target.subscripts for part in walk(subscript)]
    return not any(isinstance(p, (Element, Load, Address)) for p in parts) and not any(
        isinstance(p, Var) and p.name in changing for p in parts
    )


def _same(kernel: Kernel, loop: For, target: Element, kept: Var) -> _Kept | None:
    """The rewrite for an element that is the same in all iterations, and that no other access in
    the loop touches."""
    if not _is_plain(target, changed_by(loop)):
        return None
    others = [site for site in sites(loop.body, target.array) if site.access != target]
    if any(touches(loop, kernel, target, site) for site in others):
        return None
    uses = [use for use in _uses(loop.body, target.array) if use == target]
    writes = sum(isinstance(s, Assign) and s.target == target for s in statements(loop.body))
    if len(uses) == writes:
        return None  # it is never read
    body = tuple(changed_in(s, lambda e: kept if e == target else e) for s in loop.body)
    return target, body, (Assign(target, kept),)


def _carried(kernel: Kernel, loop: For, target: Element, kept: Var) -> _Kept | None:
    """The rewrite for an element that one iteration writes and the next one reads."""
    if not _is_plain(target, changed_by(loop) - {loop.variable}):
        return None
    here, before = _place(target, loop, 0), _place(target, loop, -loop.step)
    body: list[Statement] = []
    written = read = False
    for statement in loop.body:
        wanted = here if written else before
        value = statement.value if isinstance(statement, (Assign, Declare)) else None
        uses = [] if value is None else _uses_in(value, target.array)
        old = [] if written else [e for e in uses if _is_at(e, loop, here)]
        if any(e not in old and not _is_at(e, loop, wanted) for e in uses):
            return None
        read = read or bool(len(uses) > len(old) and not written)
        if isinstance(statement, Assign) and statement.target == target and not written:
            value = _with(statement.value, target.array, kept, old)
            body += [Assign(kept, value), Assign(target, kept)]
            written = True
        elif len(uses) != len(_uses((statement,), target.array)):
            return None  # it is written again, or used in a subscript or in a loop inside
        elif isinstance(statement, (Assign, Declare)) and value is not None:
            body.append(replace(statement, value=_with(value, target.array, kept, old)))
        else:
            body.append(statement)
    first = replace(target, subscripts=tuple(_first(s, loop) for s in target.subscripts))
    computed = [e for e in unconditional(loop.body) if isinstance(e, Element)]
    is_read = any(e.array == first.array and _place(e, loop, 0) == before for e in computed)
    if not written or not read or here == before or not (is_read or is_inside(first, [], kernel)):
        return None
    return first, tuple(body), ()


def _place(element: Element, loop: For, later: int) -> list[tuple[dict[Expr, int], int]]:
    """The subscripts of an element after the loop's variable has grown by a number."""
    found = []
    for terms, offset in map(linear, element.subscripts):
        found.append((terms, offset + later * terms.get(Var(loop.variable), 0)))
    return found


def _uses_in(value: Expr, array: str) -> list[Expr]:
    found = (e for e in walk(value) if isinstance(e, (Element, Load, Address)))
    return [e for e in found if e.array == array]


def _is_at(element: Expr, loop: For, place: list[tuple[dict[Expr, int], int]]) -> bool:
    return isinstance(element, Element) and _place(element, loop, 0) == place


def _with(value: Expr, array: str, kept: Var, old: Sequence[Expr]) -> Expr:
    """The value with the variable for the elements of the array, but not for those of `old`."""

    def change(expr: Expr) -> Expr:
        return (
            kept if isinstance(expr, Element) and expr.array == array and expr not in old else expr
        )

    return changed(value, change)


def _first(subscript: Expr, loop: For) -> Expr:
    """A subscript for the iteration before the first one."""
    terms, offset = linear(subscript)
    offset += (loop.first - loop.step) * terms.pop(Var(loop.variable), 0)
    found: Expr | None = None
    for term, factor in terms.items():
        part = term if abs(factor) == 1 else Binary("*", term, Number(str(abs(factor))))
        if found is None:
            found = part if factor > 0 else Negative(part)
        else:
            found = Binary("+" if factor > 0 else "-", found, part)
    if found is None:
        return Number(str(offset)) if offset >= 0 else Negative(Number(str(-offset)))
    return Binary("+" if offset > 0 else "-", found, Number(str(abs(offset)))) if offset else found
