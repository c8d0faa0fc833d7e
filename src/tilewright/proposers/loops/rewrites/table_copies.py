"""Give each copy of a loop its own copy of a table to which the loop only adds, such as a
histogram.

Before::

    for (int i = 0; i < 4096; i++) H[X[i]] = H[X[i]] + 1;

After (2 copies)::

    int H_1[256];
    for (int at_1 = 0; at_1 < 256; at_1++) H_1[at_1] = 0;
    for (int i = 0; i < 4096; i += 2) {
      H[X[i]] = H[X[i]] + 1;
      H_1[X[i + 1]] = H_1[X[i + 1]] + 1;
    }
    for (int at_2 = 0; at_2 < 256; at_2++) H[at_2] = H[at_2] + H_1[at_2];
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.proposers.loops.analysis.changes import array_types
from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.c_types import BYTES, RANGES, is_whole
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Number,
    Statement,
    Type,
    Var,
    expressions,
    statements,
    walk,
)

_MOST_BYTES = 1 << 15
"""Maximum total size of the copies of all tables, so that they stay in the first-level cache."""


@dataclass(frozen=True, slots=True)
class Table:
    """A one-dimensional array to which a loop only adds."""

    name: str
    size: int
    type: Type

    def cleared(self, name: str, variable: str) -> list[Statement]:
        """A copy filled with zeros."""
        zero = Number("0" if is_whole(self.type) else "0.0f")
        return [
            Declare(self.type, name, (self.size,)),
            For(variable, 0, self.size, 1, (Assign(Element(name, (Var(variable),)), zero),)),
        ]

    def joined(self, names: list[str], variable: str) -> Statement:
        """Add copies to the table."""
        place = Element(self.name, (Var(variable),))
        total: Expr = place
        for name in names:
            total = Binary("+", total, Element(name, (Var(variable),)))
        return For(variable, 0, self.size, 1, (Assign(place, total),))


def tables(loop: For, kernel: Kernel, copies: int) -> list[Table]:
    """The arrays to which an innermost loop only adds, at data-dependent places.

    None if their copies would be too large.
    """
    found: dict[str, Table] = {}
    for statement in loop.body:
        table = _updated(statement, kernel)
        if table is not None:
            found[table.name] = table
    kept = []
    for table in found.values():
        updates = sum(_updated(s, kernel) == table for s in statements(loop.body))
        uses = sum(isinstance(e, Element) and e.array == table.name for e in expressions(loop.body))
        if uses == 2 * updates:
            kept.append(table)
    size = sum(table.size * BYTES.get(table.type, 4) for table in kept)
    return kept if size * copies <= _MOST_BYTES else []


def _updated(statement: Statement, kernel: Kernel) -> Table | None:
    """The table to which a statement adds."""
    if not isinstance(statement, Assign) or not isinstance(statement.target, Element):
        return None
    target, value = statement.target, statement.value
    if not isinstance(value, Binary) or value.operator not in "+-" or value.left != target:
        return None
    declared = {s.name for s in statements(kernel.body) if isinstance(s, Declare)}
    place = [e for subscript in target.subscripts for e in walk(subscript)]
    if not any(
        isinstance(e, Element) or (isinstance(e, Var) and e.name in declared) for e in place
    ):
        return None  # only loop variables determine the place
    known: dict[str, tuple[tuple[int, ...], str]] = {
        p.name: (p.sizes, p.type) for p in (*kernel.parameters, *kernel.scratch)
    }
    for inner in statements(kernel.body):
        if isinstance(inner, Declare) and inner.sizes:
            known[inner.name] = inner.sizes, inner.type
    sizes, kind = known.get(target.array, ((), ""))
    if not sizes:
        sizes = _size_by_type(target, kernel)
    if len(sizes) != 1 or not (is_whole(kind) or kind == "float"):
        return None
    return Table(target.array, sizes[0], kind)  # type: ignore[arg-type]


def _size_by_type(target: Element, kernel: Kernel) -> tuple[int, ...]:
    """The size of a flat table with an element for each value of the type of its index.

    It is known if a loop of the kernel writes all of them, which clears the table; empty otherwise.
    """
    if len(target.subscripts) != 1:
        return ()
    least, most = RANGES.get(_type_of_index(target.subscripts[0], kernel), (0, 0))
    for loop in kernel.body:
        if isinstance(loop, For) and (loop.first, loop.step, least) == (0, 1, 0):
            filled = any(
                isinstance(s, Assign)
                and isinstance(s.target, Element)
                and s.target.array == target.array
                and _is_each_once(s.target, loop)
                for s in loop.body
            )
            if filled and loop.last > most > 0:
                return (loop.last,)
    return ()


def _is_each_once(element: Element, loop: For) -> bool:
    """Whether a loop from 0 writes each element up to its last iteration, in either direction."""
    terms, offset = linear(element.subscripts[0]) if len(element.subscripts) == 1 else ({}, 0)
    moved = terms.get(Var(loop.variable)) if len(terms) == 1 else None
    return (moved, offset) in ((1, 0), (-1, loop.last - 1))


def _type_of_index(index: Expr, kernel: Kernel) -> str:
    """The type of the array element that is the index, directly or through the only value of a
    variable."""
    if isinstance(index, Var):
        values: list[Expr | None] = []
        for statement in statements(kernel.body):
            if isinstance(statement, Declare) and statement.name == index.name:
                values.append(statement.value)
            elif isinstance(statement, Assign) and statement.target == index:
                values.append(None)
        if len(values) != 1 or not isinstance(values[0], Element):
            return ""
        index = values[0]
    if not isinstance(index, Element):
        return ""
    return array_types(kernel).get(index.array, "")
