"""Replace an array whose elements a loop shifts in each iteration by a longer array that stays in
place.

Before::

    float line[32];
    for (int at = 0; at < 32; at++) line[at] = 0.0f;
    for (int n = 0; n < 1024; n++) {
      for (int at = 0; at < 31; at++) line[31 - at] = line[30 - at];
      line[0] = X[n];
      float sum = 0.0f;
      for (int k = 0; k < 32; k++) sum = sum + H[k] * line[k];
      Y[n] = sum;
    }

After (`line_1` has 1056 elements)::

    for (int at = 0; at < 32; at++) line_1[31 - at] = 0.0f;
    for (int n = 0; n < 1024; n++) line_1[32 + n] = X[n];
    for (int n = 0; n < 1024; n++) {
      float sum = 0.0f;
      for (int k = 0; k < 32; k++) sum = sum + H[k] * line_1[32 + n - k];
      Y[n] = sum;
    }

After i shifts, element k of `line` is element i + 31 - k of `line_1`, or element i + k if the
elements move to lower addresses. New elements that do not depend on results of the loop are written
before it, so that the iterations become independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.proposers.loops.analysis.argmax_loops import type_of
from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    changed_by,
    element_types,
    fresh,
    names_in,
    touched_by,
    visible_types,
)
from tilewright.proposers.loops.analysis.linear import linear, sum_of
from tilewright.proposers.loops.c_types import BYTES
from tilewright.proposers.loops.ir import (
    Address,
    Assign,
    Binary,
    Cast,
    Command,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Number,
    Parameter,
    Statement,
    Type,
    Var,
    changed,
    changed_in,
    expressions,
    loops,
    path_to,
    statements,
    walk,
    with_loop,
)

_MOST_BYTES = 1 << 24
"""Maximum size of the longer array."""

_MOST_PARTS = 24
"""Maximum number of parts of an expression that is computed before the loop."""


@dataclass(frozen=True, slots=True)
class _Line:
    """An array of `size` elements that a loop shifts by one element.

    `place` is the position of the shift among the statements of the loop. `up` says whether the
    elements move to higher addresses.
    """

    array: str
    size: int
    place: int
    up: bool

    @property
    def vacated(self) -> int:
        """The element that has no new value after a shift."""
        return 0 if self.up else self.size - 1

    def at(self, name: str, shifts: Expr, subscript: Expr) -> Element:
        """The element of the longer array that is an element of the line after some shifts."""
        terms, offset = linear(subscript)
        sign = -1 if self.up else 1
        offset = sign * offset + (self.size - 1) * self.up
        more, added = linear(shifts)
        found = {**{t: sign * f for t, f in terms.items()}}
        for term, factor in more.items():
            found[term] = found.get(term, 0) + factor
        return Element(name, (sum_of(found, offset + added),))


def without_shifts(kernel: Kernel, number: int) -> Kernel:
    """The kernel in which loop `number` shifts no array. Raises `NotApplicableError`."""
    loop = loops(kernel)[number]
    if loop.step != 1 or loop.limits is not None or loop.threads > 1 or not loop.trips:
        raise NotApplicableError("the loop has other steps, or a varying number of iterations")
    path = path_to(loop, kernel.body)
    block = path[-2].body if len(path) > 1 else kernel.body
    before = block[: next(i for i, s in enumerate(block) if s is loop)]
    line = _line(loop, kernel, before)
    declared = next((s for s in before if isinstance(s, Declare) and s.name == line.array), None)
    _require_own(line, loop, kernel, before, declared)
    fill = _fill(line, loop)
    kind = _type(line.array, kernel, declared)
    count = line.size + loop.trips
    if count * BYTES.get(kind, 4) > _MOST_BYTES:
        raise NotApplicableError("the array without shifts would be too large")
    name = fresh(line.array, names_in(kernel))
    done: Expr = Var(loop.variable)
    if loop.first:
        done = Binary("-", done, Number(str(loop.first)))
    more = Binary("+", done, Number("1"))

    def moved(statement: Statement, shifts: Expr) -> Statement:
        def change(expr: Expr) -> Expr:
            if isinstance(expr, Element) and expr.array == line.array:
                return line.at(name, shifts, expr.subscripts[0])
            return expr

        return changed_in(statement, change)

    types = {**element_types(kernel), **visible_types(kernel, number), loop.variable: "int"}
    value = _value_before(loop, fill, types)
    body = [
        moved(s, more if place > line.place else done)
        for place, s in enumerate(loop.body)
        if place != line.place and not (value is not None and s is fill)
    ]
    new: list[Statement] = []
    if value is not None:
        place = next(i for i, s in enumerate(loop.body) if s is fill)
        target = line.at(name, more if place > line.place else done, Number(str(line.vacated)))
        new.append(replace(loop, body=(Assign(target, value),)))
    new.append(replace(loop, body=tuple(body)))
    changed_before = [moved(s, Number("0")) for s in before if s is not declared]
    kept = [p for p in kernel.scratch if p.name != line.array]
    kernel = replace(kernel, scratch=(*kept, Parameter(name, (count,), False, kind)))
    block = (*changed_before, *new, *block[len(before) + 1 :])
    if len(path) == 1:
        return replace(kernel, body=block)
    outer = next(n for n, o in enumerate(loops(kernel)) if o is path[-2])
    return with_loop(kernel, outer, (replace(path[-2], body=block),))


def _line(loop: For, kernel: Kernel, before: Sequence[Statement]) -> _Line:
    """The array that a loop shifts, once in each iteration."""
    sizes = {p.name: p.sizes for p in kernel.scratch if not p.values}
    sizes |= {s.name: s.sizes for s in before if isinstance(s, Declare)}
    for place, inner in enumerate(loop.body):
        if not isinstance(inner, For) or len(inner.body) != 1 or inner.step != 1:
            continue
        move = inner.body[0]
        if not isinstance(move, Assign) or not isinstance(move.target, Element):
            continue
        array, value = move.target.array, move.value
        if not isinstance(value, Element) or value.array != array:
            continue
        if len(sizes.get(array, ())) != 1 or inner.limits is not None or inner.threads > 1:
            continue
        size = sizes[array][0]
        (terms, to), (others, source) = (
            linear(move.target.subscripts[0]),
            linear(value.subscripts[0]),
        )
        # The element that is overwritten must have been moved in an earlier iteration.
        up, factor = to > source, terms.get(Var(inner.variable), 0)
        first, last = inner.range
        ends = sorted((to + factor * first, to + factor * last))
        if (
            len(terms) == 1
            and terms == others
            and inner.trips == size - 1
            and (factor, to - source, ends) in ((-1, 1, [1, size - 1]), (1, -1, [0, size - 2]))
        ):
            return _Line(array, size, place, up)
    raise NotApplicableError("the loop does not shift the elements of an array")


def _require_own(
    line: _Line, loop: For, kernel: Kernel, before: Sequence[Statement], declared: Declare | None
) -> None:
    """Raise unless only a loop, and the statements in front of it, use an array in any way that is
    understood."""
    inside = [*before, *loop.body]
    if any(isinstance(s, Command) for s in statements(tuple(inside))):
        raise NotApplicableError("the loop contains commands")

    def uses(body: Sequence[Statement]) -> int:
        return sum(
            isinstance(e, (Element, Load, Address)) and e.array == line.array
            for e in expressions(tuple(body))
        )

    if uses(inside) != uses(kernel.body):
        raise NotApplicableError(f"{line.array} is also used after the loop, or outside of it")
    if any(
        isinstance(e, (Load, Address)) and e.array == line.array for e in expressions(tuple(inside))
    ):
        raise NotApplicableError(f"vectors of {line.array} are used")
    if declared is None and not _is_filled(line, before):
        raise NotApplicableError(f"{line.array} may keep values from earlier runs of the loop")


def _is_filled(line: _Line, before: Sequence[Statement]) -> bool:
    """Whether statements set all elements of an array before they use it."""
    for statement in before:
        if not any(
            isinstance(e, Element) and e.array == line.array for e in expressions((statement,))
        ):
            continue
        if not isinstance(statement, For) or len(statement.body) != 1:
            return False
        fill = statement.body[0]
        return (
            (statement.first, statement.step, statement.trips) == (0, 1, line.size)
            and statement.limits is None
            and isinstance(fill, Assign)
            and fill.target == Element(line.array, (Var(statement.variable),))
            and not any(isinstance(e, Element) and e.array == line.array for e in walk(fill.value))
        )
    return False


def _fill(line: _Line, loop: For) -> Assign:
    """The statement that sets the vacated element before any other statement uses the array."""
    for statement in (*loop.body[line.place + 1 :], *loop.body[: line.place]):
        found = [
            e for e in expressions((statement,)) if isinstance(e, Element) and e.array == line.array
        ]
        if not found:
            continue
        target = Element(line.array, (Number(str(line.vacated)),))
        if isinstance(statement, Assign) and statement.target == target and len(found) == 1:
            return statement
        break
    raise NotApplicableError("the loop does not set the vacated element directly after the shift")


def _value_before(loop: For, fill: Assign, types: Mapping[str, Type]) -> Expr | None:
    """The new element as an expression that is known before the loop; None if it is not known.

    `types` are the types of the variables that are visible in the loop, and of all arrays.
    """
    values: dict[str, Expr] = {}
    known = {**types, **{s.name: s.type for s in loop.body if isinstance(s, Declare)}}
    for statement in loop.body:
        if statement is fill:
            break
        if isinstance(statement, Declare) and statement.value is not None and not statement.sizes:
            kind = type_of(statement.value, known)
            if kind == statement.type:
                values[statement.name] = statement.value
            elif kind is not None:  # the variable converts its value
                values[statement.name] = Cast(statement.type, statement.value)
    assigned = {
        s.target.name
        for s in statements(loop.body)
        if isinstance(s, Assign) and isinstance(s.target, Var)
    }

    def change(expr: Expr) -> Expr:
        if not isinstance(expr, Var) or expr.name in assigned or expr.name not in values:
            return expr
        return changed(values[expr.name], change)

    value = changed(fill.value, change)
    if len([*walk(value)]) > _MOST_PARTS:
        return None
    changing = changed_by(loop) - {loop.variable}
    changing |= {s.name for s in statements(loop.body) if isinstance(s, Declare)}
    written = touched_by(loop.body)
    is_known = all(
        e.name not in changing
        if isinstance(e, Var)
        else e.array not in written
        if isinstance(e, Element)
        else not isinstance(e, Load)
        for e in walk(value)
    )
    return value if is_known else None


def _type(array: str, kernel: Kernel, declared: Declare | None) -> Type:
    if declared is not None:
        return declared.type
    return next(p.type for p in kernel.scratch if p.name == array)
