"""Compute values that an outer loop does not change once, into an array.

Before::

    for (int h = 0; h < 8; h++)
      for (int j = 0; j < 32; j++) {
        float c = cosf(angle[j]);
        Y[h][j] = X[h][j] * c;
      }

After::

    float table_1[32];
    for (int j = 0; j < 32; j++) {
      float c = cosf(angle[j]);
      table_1[j] = c;
    }
    for (int h = 0; h < 8; h++)
      for (int j = 0; j < 32; j++) Y[h][j] = X[h][j] * table_1[j];

Only values that take long to compute are worth a load: calls, quotients, and floats that are
converted to integers. Both loops begin at 0 and have steps of 1 afterwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tilewright.proposers.loops.analysis.argmax_loops import type_of
from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    array_types,
    changed_by,
    fresh,
    names_in,
    touched_by,
    visible_types,
)
from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.c_types import BYTES, is_whole
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Call,
    Cast,
    Command,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Number,
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
from tilewright.proposers.loops.rewrites.vectors import unconditional

_MOST_BYTES = 1 << 15
"""Maximum size of all tables of a loop, so that they stay in the first-level cache."""


def tabulate(kernel: Kernel, number: int) -> Kernel:
    """The kernel with tables for loop `number`, before the outermost loop that does not change
    their values. Raises `NotApplicableError`.
    """
    path = around(kernel, number)
    loop = path[-1]
    if any(o.trips < 1 for o in path) or any(
        isinstance(s, Command) or (isinstance(s, Declare) and s.type == "vector")
        for s in statements(loop.body)
    ):
        raise NotApplicableError("the loop has no iterations, or contains commands or vectors")
    for outer in path[:-1]:
        values = _Values(kernel, number, outer)
        if values.names or values.parts:
            return _with_tables(kernel, number, outer, values)
    raise NotApplicableError("no outer loop computes the same values repeatedly")


@dataclass(frozen=True, slots=True)
class _Table:
    """An array of values, each of which was a variable or another part of a statement."""

    name: str
    type: Type
    value: Expr


class _Values:
    """The values of a loop that do not change while `outer`, one of the loops around it, runs.

    `names` are those that variables have, and `parts` other parts of statements; both take long to
    compute. `moved` are the places of the statements that compute only such values.
    """

    def __init__(self, kernel: Kernel, number: int, outer: For) -> None:
        self._loop = loops(kernel)[number]
        self._changing = changed_by(outer) - {self._loop.variable}
        inside = list(statements(outer.body))
        self._written = touched_by(outer.body)
        self.types: dict[str, Type] = {
            **array_types(kernel), **visible_types(kernel, number), self._loop.variable: "int"
        }  # fmt: skip
        body = self._loop.body
        self.types |= {s.name: s.type for s in statements(body) if isinstance(s, Declare)}
        again = math.prod(o.trips for o in around(kernel, number)[:-1] if o in (outer, *inside))
        self._same = self._variables() if again > 1 else set()
        self.moved = {
            place
            for place, s in enumerate(body)
            if isinstance(s, (Declare, Assign)) and _target(s) in self._same
        }
        rest = tuple(s for place, s in enumerate(body) if place not in self.moved)
        read = {e.name for e in expressions(rest) if isinstance(e, Var)}
        self.names = [n for n in sorted(self._same & read) if again > 1 and self._is_costly(n)]
        self.parts: list[Expr] = []
        always = {*unconditional(rest)}
        for s in rest if again > 1 else ():
            if isinstance(s, (Declare, Assign)) and s.value is not None:
                self._search(s.value, always)

    def needed(self, exprs: list[Expr]) -> set[int]:
        """The places of the statements that compute the variables in values."""
        wanted = {e.name for expr in exprs for e in walk(expr) if isinstance(e, Var)} & self._same
        while True:
            found = {p for p in self.moved if _target(self._loop.body[p]) in wanted}
            used = expressions(tuple(self._loop.body[p] for p in found))
            more = {e.name for e in used if isinstance(e, Var)} & self._same
            if more <= wanted:
                return found
            wanted |= more

    def _variables(self) -> set[str]:
        """The loop's own variables whose values do not change, at the places where they are used
        by other statements."""
        body = self._loop.body
        same = {s.name for s in body if isinstance(s, Declare) and not s.sizes and s.value}
        while True:
            places: dict[str, list[int]] = {}
            for place, s in enumerate(body):
                for inner in statements((s,)):
                    if isinstance(inner, (Declare, Assign)):
                        places.setdefault(_target(inner), []).append(place)
            kept = {
                name
                for name in same
                if all(self._is_same(body[p], name, same) for p in places[name])
                and not any(
                    Var(name) in expressions((s,))
                    for place, s in enumerate(body[: places[name][-1]])
                    if not isinstance(s, (Declare, Assign)) or _target(s) not in same
                )
            }
            if kept == same:
                return same
            same = kept

    def _is_same(self, statement: Statement, name: str, same: set[str]) -> bool:
        if not isinstance(statement, (Declare, Assign)) or _target(statement) != name:
            return False
        if isinstance(statement, Assign) and not isinstance(statement.target, Var):
            return False
        return statement.value is not None and self._does_not_change(statement.value, same)

    def _does_not_change(self, expr: Expr, same: set[str]) -> bool:
        return all(
            (e.name not in self._changing or e.name in same)
            if isinstance(e, Var)
            else e.array not in self._written
            if isinstance(e, Element)
            else not isinstance(e, Load)
            for e in walk(expr)
        )

    def _is_costly(self, name: str) -> bool:
        found = self.needed([Var(name)])
        return any(map(self._costs, expressions(tuple(self._loop.body[p] for p in found))))

    def _costs(self, part: Expr) -> bool:
        if isinstance(part, Cast):
            return is_whole(part.type) and type_of(part.value, self.types) in ("float", "double")
        if isinstance(part, Binary) and part.operator == "/":
            return not (isinstance(part.right, Number) and part.right.text.isdigit())
        return isinstance(part, Call)

    def _search(self, expr: Expr, always: set[Expr]) -> None:
        """Adds the largest parts of an expression that are the same and take long."""
        if isinstance(expr, (Var, Number)) or expr in self.parts:
            return
        if (
            expr in always
            and any(map(self._costs, walk(expr)))
            and any(isinstance(e, (Var, Element)) for e in walk(expr))
            and self._does_not_change(expr, self._same)
            and type_of(expr, self.types) is not None
        ):
            self.parts.append(expr)
            return
        for part in parts(expr):
            self._search(part, always)


def _target(statement: Statement) -> str:
    """The variable or array that a declaration or an assignment sets."""
    if isinstance(statement, Declare):
        return statement.name
    return statement.target_name if isinstance(statement, Assign) else ""


def _with_tables(kernel: Kernel, number: int, outer: For, values: _Values) -> Kernel:
    loop = loops(kernel)[number]
    taken = names_in(kernel)
    tables: list[_Table] = []
    for value in [*(Var(n) for n in values.names), *values.parts]:
        kind = type_of(value, values.types)
        assert kind is not None
        tables.append(_Table(fresh("table", taken), kind, value))
    if sum(BYTES.get(t.type, 4) for t in tables) * loop.trips > _MOST_BYTES:
        raise NotApplicableError("the tables would be too large")
    here = Var(loop.variable)
    found: dict[Expr, Expr] = {t.value: Element(t.name, (here,)) for t in tables}
    needed = values.needed([t.value for t in tables])
    computed = [
        *(s for place, s in enumerate(loop.body) if place in needed),
        *(Assign(Element(t.name, (here,)), t.value) for t in tables),
    ]
    rest = [s for place, s in enumerate(loop.body) if place not in values.moved]
    rest = [changed_in(_of_unit_steps(s, loop), lambda e: found.get(e, e)) for s in rest]
    cheap = {
        e.name
        for e in expressions(tuple(rest))
        if isinstance(e, Var) and e.name not in values.names
    }
    kept = values.needed([Var(name) for name in sorted(cheap)])
    main = replace(
        loop,
        first=0,
        last=loop.trips,
        step=1,
        body=(*(_of_unit_steps(loop.body[p], loop) for p in sorted(kept)), *rest),
    )
    of_tables = tuple(
        s if isinstance(s, Assign) and isinstance(s.target, Element) else _of_unit_steps(s, loop)
        for s in computed
    )
    new: list[Statement] = [Declare(t.type, t.name, (loop.trips,)) for t in tables]
    new.append(For(loop.variable, 0, loop.trips, 1, of_tables))
    of_outer = next(n for n, other in enumerate(loops(kernel)) if other is outer)
    kernel = with_loop(kernel, number, (main,))
    new.append(loops(kernel)[of_outer])  # outer loops have smaller numbers, which do not change
    return with_loop(kernel, of_outer, tuple(new))


def _of_unit_steps(statement: Statement, loop: For) -> Statement:
    """A statement of an iteration whose number is the value of the loop's variable."""
    if loop.first == 0 and loop.step == 1:
        return statement
    here = Var(loop.variable)
    value: Expr = here if loop.step == 1 else Binary("*", here, Number(str(loop.step)))
    if loop.first:
        value = Binary("+", value, Number(str(loop.first)))

    def change(expr: Expr) -> Expr:
        return value if expr == here else _quotient(expr)

    return changed_in(statement, change)


def _quotient(expr: Expr) -> Expr:
    """The exact result of a division by a constant that divides all terms, or the expression."""
    if not isinstance(expr, Binary) or expr.operator != "/" or not isinstance(expr.right, Number):
        return expr
    divisor = int(expr.right.text) if expr.right.text.isdigit() else 0
    terms, offset = linear(expr.left)
    if not divisor or offset % divisor or any(f % divisor or f < 0 for f in terms.values()):
        return expr
    found: Expr = Number(str(offset // divisor))
    for term, factor in terms.items():
        scaled = term if factor == divisor else Binary("*", term, Number(str(factor // divisor)))
        found = scaled if found == Number("0") else Binary("+", found, scaled)
    return found
