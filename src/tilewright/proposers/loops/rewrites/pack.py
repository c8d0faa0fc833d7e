"""Copy an input once in the order in which a loop reads it.

Before::

    for (int j = 0; j < 64; j++) {
      float sum = 0.0f;
      for (int d = 0; d < 32; d++) sum = sum + Q[d] * K[j][d];
      scores[j] = sum;
    }

After::

    static _Alignas(64) float K_1[32][64];
    for (int at_1 = 0; at_1 < 64; at_1 += 16)
      for (int at_2 = 0; at_2 < 32; at_2++)
        for (int at_3 = 0; at_3 < 16; at_3++) K_1[at_2][at_1 + at_3] = K[at_1 + at_3][at_2];
    for (int j = 0; j < 64; j++) {
      float sum = 0.0f;
      for (int d = 0; d < 32; d++) sum = sum + Q[d] * K_1[d][j];
      scores[j] = sum;
    }

Inputs of 8 bits that are multiplied are copied to 16 bits, in whichever order: compilers make sums
of products of such numbers one instruction. Before::

    for (int k = 0; k < 64; k++) sum = sum + a[64 * i + k] * b[64 * j + k];

After, where i takes 32 values and j 48::

    static _Alignas(64) int16_t a_1[2048];
    static _Alignas(64) int16_t b_1[3072];
    for (int at_2 = 0; at_2 < 3072; at_2++) b_1[at_2] = b[at_2];
    for (int at_1 = 0; at_1 < 2048; at_1++) a_1[at_1] = a[at_1];
    for (int k = 0; k < 64; k++) sum = sum + a_1[64 * i + k] * b_1[64 * j + k];

The fields of an array of structures are copied to arrays of their own: `P[3 * i]` becomes
`P_1[0][i]`, and `P[3 * i + 2]` becomes `P_1[2][i]`.

Where each use of such an input adds the same number, as with the zero points of quantised numbers,
the copy holds the sums: `(a[64 * i + k] - 128) * b[64 * j + k]` becomes the same product, with
`a_1[at_1] = a[at_1] - 128`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    coefficient,
    fresh,
    names_in,
)
from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.c_types import BYTES
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Cast,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Number,
    Parameter,
    Statement,
    Type,
    Var,
    around,
    changed_in,
    expressions,
    loops,
    parts,
    statements,
    walk,
    with_loop,
)
from tilewright.proposers.loops.rewrites.added_numbers import (
    WIDER,
    added_to,
    array_of,
    common_number,
)
from tilewright.proposers.loops.rewrites.flattened import (
    column_of,
    elements_read,
    is_read_whole,
)

_MOST_BYTES = 1 << 24
_LINE_BYTES = 64
"""Number of bytes of a cache line."""
_T = TypeVar("_T")


def pack(kernel: Kernel, number: int) -> Kernel:
    """The kernel with a packed copy of an input that loop `number` reads along another index.

    Raises `NotApplicableError`.
    """
    loop = loops(kernel)[number]
    if _only_copies(loop):
        raise NotApplicableError("the loop only copies")
    inputs = {p.name: p for p in kernel.parameters if p.constant and p.sizes}
    factors = _factors(loop)
    wider: dict[str, Type] = {
        p.name: WIDER.get(p.type, p.type) for p in kernel.parameters if p.name in factors
    }
    for expr in expressions(loop.body):
        if isinstance(expr, Element) and expr.array in inputs:
            dimension = _dimension(expr, loop.variable)
            if dimension is not None:
                given = inputs[expr.array]
                kind = wider.get(given.name, given.type)
                return _copied(kernel, number, given, dimension, kind)
    for given in kernel.parameters:
        if given.constant and len(given.sizes) <= 1:
            flat = _flat(loop, given, kernel, number, wider.get(given.name, given.type))
            if flat is not None:
                return flat
    narrow = [p for p in kernel.parameters if p.constant and wider.get(p.name, p.type) != p.type]
    if not narrow:
        raise NotApplicableError("every input is read along its last index")
    for given in narrow:
        sizes = given.sizes or (elements_read(given.name, kernel, number),)
        whole = replace(given, sizes=sizes)
        kernel = _copied(kernel, number, whole, len(sizes) - 1, wider[given.name])
        number += len(sizes)
    return kernel


def _only_copies(loop: For) -> bool:
    """Whether a loop only moves elements and computes nothing."""
    inner = [s for s in statements(loop.body) if not isinstance(s, For)]
    values = [s.value for s in inner if isinstance(s, Assign)]
    return len(values) == len(inner) and all(isinstance(v, Element) for v in values)


def _factors(loop: For) -> set[str]:
    """Arrays whose elements are multiplied, alone or after a number was added to them."""
    named = {s.name: s.value for s in statements(loop.body) if isinstance(s, Declare)}
    found = set()
    for expr in expressions(loop.body):
        for side in parts(expr) if isinstance(expr, Binary) and expr.operator == "*" else ():
            factor = named.get(side.name) if isinstance(side, Var) else side
            if isinstance(factor, Binary) and added_to(factor) is not None:
                factor = factor.left
            factor = factor.value if isinstance(factor, Cast) else factor
            if isinstance(factor, Element):
                found.add(factor.array)
    return found


def _dimension(element: Element, variable: str) -> int | None:
    """The only index, except the last, that grows by one with a variable.

    None if there is no such index, or if an index depends on data, as in `table[X[i]]`.
    """
    try:
        grows = [coefficient(s, variable) for s in element.subscripts]
    except NotApplicableError:
        return None
    found = [d for d, by in enumerate(grows) if by]
    return found[0] if len(found) == 1 and grows[found[0]] == 1 and not grows[-1] else None


def _flat(loop: For, given: Parameter, kernel: Kernel, number: int, kind: Type) -> Kernel | None:
    """The kernel with a copy of a flattened input, `X[row * 64 + column]`, by columns.

    None unless the loop iterates over rows and the columns are numbers or the variable of another
    loop, as in arrays of structures. Elements that do not depend on the loop's variable are not
    changed.
    """
    row = Var(loop.variable)
    read = {e for e in expressions(loop.body) if isinstance(e, Element) and e.array == given.name}
    uses = {use: linear(use.subscripts[0]) for use in read if row in walk(use.subscripts[0])}
    widths = {terms.get(row, 0) for terms, _ in uses.values()}
    columns = {e: column_of(terms, offset, row) for e, (terms, offset) in uses.items()}
    found = {column for column in columns.values() if column is not None}
    if len(widths) != 1 or None in columns.values():
        return None
    width = widths.pop()
    nearby = [o for o in (*around(kernel, number), *statements(loop.body)) if isinstance(o, For)]
    if {c.name for c, _ in found if c is not None} - {o.variable for o in nearby}:
        return None
    read_columns = {added for c, added in found if c is None}
    for run in nearby:
        for added in (added for c, added in found if c == Var(run.variable)):
            read_columns |= {run.range[0] + added, run.range[1] + added}
    used, rows = max(read_columns, default=-1) + 1, loop.range[1] + 1
    if width < max(2, used) or not used or min(loop.first, *read_columns) < 0:
        return None
    if given.sizes and (rows - 1) * width + used > given.sizes[0]:
        return None
    if all(c is None for c, _ in found) and not is_read_whole(given, kernel, number):
        return None

    def by_rows(expr: Expr) -> Expr:
        column = columns.get(expr) if isinstance(expr, Element) else None
        return expr if column is None else Element(given.name, (row, _sum_of(*column)))

    def flattened(expr: Expr) -> Expr:
        if not isinstance(expr, Element) or expr.array != given.name:
            return expr
        at, inside = expr.subscripts
        flat = Binary("+", Binary("*", at, Number(str(width))), inside)
        return Element(given.name, (flat,))

    body = tuple(changed_in(s, by_rows) for s in loop.body)
    nested = with_loop(kernel, number, (replace(loop, body=body),))
    sized = replace(given, sizes=(rows, used))
    made = _copied(nested, number, sized, 0, kind)
    return replace(made, body=(changed_in(made.body[0], flattened), *made.body[1:]))


def _sum_of(variable: Var | None, added: int) -> Expr:
    """A variable plus a number, or the number alone."""
    if variable is None or not added:
        return variable or Number(str(added))
    return Binary("+" if added > 0 else "-", variable, Number(str(abs(added))))


def _copied(kernel: Kernel, number: int, given: Parameter, dimension: int, kind: Type) -> Kernel:
    """The kernel with a copy that the loop reads instead, in which one index and the last one are
    exchanged."""
    sizes = _exchanged(given.sizes, dimension)
    if math.prod(sizes) * BYTES.get(kind, 4) > _MOST_BYTES:
        raise NotApplicableError(f"a copy of {given.name} would be too large")
    taken = names_in(kernel)
    name = fresh(given.name, taken)
    shift = common_number(given, loops(kernel)[number].body, kind)

    def instead(expr: Expr) -> Expr:
        if (
            isinstance(expr, Element)
            and expr.array == given.name
            and len(expr.subscripts) == len(sizes)
        ):
            return Element(name, _exchanged(expr.subscripts, dimension))
        if shift and isinstance(expr, Binary) and added_to(expr) is not None:
            return expr.left if array_of(expr) == name else expr
        return expr

    if any(o.threads > 1 for o in around(kernel, number)):
        raise NotApplicableError("the loop is shared among threads: pack first")
    body = tuple(changed_in(s, instead) for s in loops(kernel)[number].body)
    changed = with_loop(kernel, number, (replace(loops(kernel)[number], body=body),))
    at = tuple(Var(fresh("at", taken)) for _ in sizes)
    copying = _copying(name, given, at, dimension, shift)
    line = _LINE_BYTES // BYTES.get(kind, 4)
    if dimension != len(sizes) - 1 and given.sizes[dimension] % line == 0:
        within = Var(fresh("at", taken))
        copying = _copying(name, given, at, dimension, shift, within, line)
    return replace(
        changed,
        body=(copying, *changed.body),
        scratch=(*kernel.scratch, Parameter(name, sizes, False, kind)),
    )


def _copying(
    name: str,
    given: Parameter,
    at: Sequence[Var],
    dimension: int,
    shift: int,
    within: Var | None = None,
    line: int = 1,
) -> Statement:
    """Loops that copy an array in its own order, with `shift` added to each element.

    The loop over `within` writes a line of the copy.

    If the lines in between do not fit into the cache, a cache line that is written in parts is
    fetched again for each of its elements.
    """
    place: list[Expr] = [*at]
    if within is not None:
        place[dimension] = Binary("+", at[dimension], within)
    target = Element(name, _exchanged(place, dimension))
    value: Expr = Element(given.name, (*place,))
    if shift:
        value = Binary("+" if shift > 0 else "-", value, Number(str(abs(shift))))
    copying: Statement = Assign(target, value)
    if within is not None:
        copying = For(within.name, 0, line, 1, (copying,))
    for index in reversed(range(len(at))):
        step = line if index == dimension else 1
        copying = For(at[index].name, 0, given.sizes[index], step, (copying,))
    return copying


def _exchanged(subscripts: Sequence[_T], dimension: int) -> tuple[_T, ...]:
    """The subscripts with one index and the last one exchanged."""
    found = [*subscripts]
    found[dimension], found[-1] = found[-1], found[dimension]
    return tuple(found)
