"""A copy of an input in the order in which a loop reads it, made once.

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

Where each use of such an input adds the same number, as with the zero points of quantised numbers,
the copy holds the sums: `(a[64 * i + k] - 128) * b[64 * j + k]` becomes the same product, with
`a_1[at_1] = a[at_1] - 128`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    coefficient,
    fresh,
    names_in,
)
from tilewright.proposers.loops.analysis.independence import extremes, linear
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
    with_loop,
)
from tilewright.proposers.loops.rewrites.added_numbers import (
    WIDER,
    added_to,
    array_of,
    common_number,
)
from tilewright.proposers.loops.rewrites.vectors import unconditional

_MOST_BYTES = 1 << 24
_LINE_BYTES = 64
"""Of a line of the cache."""
_T = TypeVar("_T")


def pack(kernel: Kernel, number: int) -> Kernel:
    """The kernel with an input that loop `number` reads along another index packed for it.

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
        sizes = given.sizes or (_elements(given.name, kernel, number),)
        whole = replace(given, sizes=sizes)
        kernel = _copied(kernel, number, whole, len(sizes) - 1, wider[given.name])
        number += len(sizes)
    return kernel


def _only_copies(loop: For) -> bool:
    """Whether a loop moves elements and computes nothing."""
    inner = [s for s in statements(loop.body) if not isinstance(s, For)]
    values = [s.value for s in inner if isinstance(s, Assign)]
    return len(values) == len(inner) and all(isinstance(v, Element) for v in values)


def _factors(loop: For) -> set[str]:
    """Arrays of which elements are multiplied, themselves or with a number added to them."""
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


def _elements(array: str, kernel: Kernel, number: int) -> int:
    """How many elements a flattened input has at least, by what loop `number` reads of it.

    Raises `NotApplicableError` where a condition, or other data, says what is read.
    """
    found = 0
    for use, enclosing in _reads(array, loops(kernel)[number].body, around(kernel, number)):
        least, greatest = extremes(use.subscripts[0], enclosing)
        if least is None or greatest is None or least < 0:
            raise NotApplicableError(f"it is not known how much of {array} is read")
        found = max(found, greatest + 1)
    return found


def _reads(
    array: str, body: Sequence[Statement], enclosing: list[For]
) -> Iterator[tuple[Element, list[For]]]:
    """Elements of an array that statements read, with the loops around each.

    Raises `NotApplicableError` where one is only read if a condition holds.
    """
    for statement in body:
        if isinstance(statement, For):
            if statement.trips:
                yield from _reads(array, statement.body, [*enclosing, statement])
            continue
        uses = [e for e in expressions((statement,)) if isinstance(e, Element) and e.array == array]
        always = list(unconditional((statement,)))
        for use in uses:
            if use not in always:
                raise NotApplicableError(f"{array} is read only under a condition")
            yield use, enclosing


def _dimension(element: Element, variable: str) -> int | None:
    """The one index, not the last, that grows by one with a variable."""
    grows = [coefficient(s, variable) for s in element.subscripts]
    found = [d for d, by in enumerate(grows) if by]
    return found[0] if len(found) == 1 and grows[found[0]] == 1 and not grows[-1] else None


def _flat(loop: For, given: Parameter, kernel: Kernel, number: int, kind: Type) -> Kernel | None:
    """The kernel with a copy of a flattened input, `X[row * 64 + column]`, by columns.

    None unless the loop runs over rows, and all that is read in it are such elements.
    """
    uses = {e for e in expressions(loop.body) if isinstance(e, Element) and e.array == given.name}
    if len(uses) != 1:
        return None
    use = uses.pop()
    terms, offset = linear(use.subscripts[0])
    row = Var(loop.variable)
    width = terms.pop(row, 0)
    column = next(iter(terms), row)
    nearby = (*around(kernel, number), *statements(loop.body))
    runs = [o for o in nearby if isinstance(o, For) and Var(o.variable) == column]
    columns = max((o.first + (o.trips - 1) * o.step + 1 for o in runs), default=0)
    if offset or terms != {column: 1} or width < max(2, columns) or not columns:
        return None
    if min(o.first for o in (loop, *runs)) < 0:
        return None
    rows = loop.first + (loop.trips - 1) * loop.step + 1
    if given.sizes and (rows - 1) * width + columns > given.sizes[0]:
        return None

    def by_rows(expr: Expr) -> Expr:
        return Element(given.name, (row, column)) if expr == use else expr

    def flattened(expr: Expr) -> Expr:
        if not isinstance(expr, Element) or expr.array != given.name:
            return expr
        at, inside = expr.subscripts
        flat = Binary("+", Binary("*", at, Number(str(width))), inside)
        return Element(given.name, (flat,))

    body = tuple(changed_in(s, by_rows) for s in loop.body)
    nested = with_loop(kernel, number, (replace(loop, body=body),))
    sized = replace(given, sizes=(rows, columns))
    made = _copied(nested, number, sized, 0, kind)
    return replace(made, body=(changed_in(made.body[0], flattened), *made.body[1:]))


def _copied(kernel: Kernel, number: int, given: Parameter, dimension: int, kind: Type) -> Kernel:
    """The kernel with a copy, one index exchanged with the last, which the loop reads instead."""
    sizes = _exchanged(given.sizes, dimension)
    if math.prod(sizes) * BYTES.get(kind, 4) > _MOST_BYTES:
        raise NotApplicableError(f"a copy of {given.name} would be too large")
    taken = names_in(kernel)
    name = fresh(given.name, taken)
    shift = common_number(given, loops(kernel)[number].body, kind)

    def instead(expr: Expr) -> Expr:
        if isinstance(expr, Element) and expr.array == given.name:
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

    Over `within`, a line of the copy is written.

    A line of the cache that is written bit by bit is fetched anew for each of its elements where
    the lines between would not fit.
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
    """One index exchanged with the last."""
    found = [*subscripts]
    found[dimension], found[-1] = found[-1], found[dimension]
    return tuple(found)
