"""Expresses variables that change from one iteration of a loop to the next by the loop's counter.

The body of a loop is lifted once with a *mark* for each such variable, which represents its value
at the beginning of an iteration. The value at the end of the body shows how the variable changes:
`at + 16` counts, and `1 - slot`, `slot ^ 4096` and `(slot + 1) % 3` alternate. A value without the
mark is constant from the second iteration on. A value that only counters determine, as in
`previous = &x[t]`, is the value of the previous iteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

from tilewright.proposers.rewriter.expr import (
    Bounds,
    Expr,
    Remainder,
    Var,
    bounds,
    minimum,
    quotient,
    remainder,
    var,
)
from tilewright.proposers.rewriter.ir import Compare, Condition, Local
from tilewright.proposers.rewriter.lifting.choice import choice
from tilewright.proposers.rewriter.lifting.symbolic_values import (
    MARK,
    Flags,
    NotModelled,
    Pointer,
    Truth,
    Value,
    toggles_in,
    without_toggles,
)

SWAPPED_OP = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


@dataclass(frozen=True, slots=True)
class Count:
    """A loop's counter: `variable` goes from `lower` to below `upper` in steps of `step`."""

    variable: str
    lower: Expr
    upper: Expr
    step: int

    def trips(self, ranges: Mapping[str, Bounds]) -> Expr:
        """Number of iterations. `ranges` are those of the enclosing loops."""
        number = quotient(self.upper - self.lower + (self.step - 1), self.step)
        if bounds(number, ranges)[0] >= 0:
            return number
        return minimum(Expr(), number * -1) * -1  # the limit may be below the first value

    def times(self, per_iteration: int) -> Expr:
        """The amount that has been added at the beginning of an iteration."""
        distance = var(self.variable) - self.lower
        if per_iteration % self.step == 0:
            return distance * (per_iteration // self.step)
        return quotient(distance, self.step) * per_iteration


@dataclass(frozen=True, slots=True)
class Marked:
    """A changing variable: its value before the loop, its mark, and its value at the end of the
    body."""

    first: Value
    mark: Value
    last: Value | None

    @property
    def step(self) -> int | None:
        """The amount that an iteration adds to a number, a row, or an element's position in its
        array."""
        steps = [_step(m, e) for m, e in self._parts()]
        known = [s for s in steps if s is not None]
        if len(known) != len(steps):
            return None
        changed = [s for s in known if s]
        return changed[0] if len(changed) == 1 else None

    def _parts(self) -> list[tuple[Expr, Expr]]:
        match self.mark, self.last:
            case Expr() as mark, Expr() as last:
                return [(mark, last)]
            case Pointer() as mark, Pointer() as last if len(mark.index) == len(last.index):
                return list(zip(mark.index, last.index, strict=True))
        return []


def mark_of(value: Value, name: str) -> Value | None:
    """A mark of the same kind as a value; None for kinds that do not change by arithmetic."""
    match value:
        case Expr():
            return var(name + MARK)
        case Local(space, _, flags):
            return Local(space, var(name + MARK), flags)
        case Pointer(array, index, axis):
            marks = tuple(var(f"{name}.{i}{MARK}") for i in range(len(index)))
            return Pointer(array, marks, axis)
        case Flags() | Truth():
            return Truth((Compare("!=", var(name + MARK), Expr(0)),))
    return None


def mark_values(changing: Mapping[str, Marked]) -> dict[str, Expr]:
    """The values before the loop, by the names of marks."""
    found: dict[str, Expr] = {}
    for marked in changing.values():
        match marked.first, marked.mark:
            case Expr() as first, Expr() as mark:
                found |= _named(mark, first)
            case Local() as first, Local() as mark:
                found |= _named(mark.row, first.row)
            case Pointer() as first, Pointer() as mark:
                for m, f in zip(mark.index, first.index, strict=True):
                    found |= _named(m, f)
    return found


def _named(mark: Expr, value: Expr) -> dict[str, Expr]:
    return dict.fromkeys(mark.names(), value)


def counted(
    condition: Condition, changing: Mapping[str, Marked], unique: Mapping[str, str]
) -> Count:
    """The counter of a loop that tests this condition first, in terms of marks.

    `unique` gives the name of the loop variable for a changing variable. `NotModelled` for
    conditions that do not compare a counter with a constant value.
    """
    if len(condition) != 1:
        raise NotModelled("a loop has several conditions")
    op, distance = condition[0].op, condition[0].left - condition[0].right
    found = [n for n, m in changing.items() if _names_of(m.mark) & distance.names()]
    if len(found) != 1:
        raise NotModelled(
            "the condition of a loop does not depend on exactly one variable that the loop changes"
        )
    name, marked = found[0], changing[found[0]]
    step = marked.step
    if not step:
        raise NotModelled(f"a loop does not change its variable {name} by a constant")
    for atom, coefficient in distance.terms:
        if not isinstance(atom, Var) and Expr(0, ((atom, 1),)).names() & _names_of(marked.mark):
            raise NotModelled("a loop does not count up or down by a constant")
        if coefficient < 0 and atom in [a for a, _ in _terms(marked.mark)]:
            op, distance = SWAPPED_OP[op], distance * -1
            break
    if isinstance(marked.first, Expr) and isinstance(marked.mark, Expr) and step > 0:
        bound = marked.mark - distance
        if not bound.names() & marked.mark.names():
            upper = _upper(op, marked.first, bound, step)
            return Count(unique[name], marked.first, upper, step)
    return _from_zero(op, distance, changing, unique[name], abs(step))


def _upper(op: str, lower: Expr, bound: Expr, step: int) -> Expr:
    span = bound - lower
    whole = span.is_const and span.const % step == 0
    if op == "<" or (op == "!=" and whole and span.const >= 0):
        return bound
    if op == "<=":
        return bound + (step if whole else 1)
    raise NotModelled("a loop does not count up to a limit")


def _from_zero(
    op: str, distance: Expr, changing: Mapping[str, Marked], variable: str, step: int
) -> Count:
    """A loop that counts down or moves a pointer, converted to one that counts up from 0."""
    before = mark_values(changing)
    after: dict[str, Expr] = {}
    for marked in changing.values():
        for mark, last in marked._parts():
            after |= _named(mark, last)
    start = distance.substituted(before)
    slope = distance.substituted(after) - distance
    if not slope.is_const or slope.const == 0 or slope.const % step:
        raise NotModelled("a loop does not count up or down by a constant")
    down = slope.const < 0
    if op == "!=" and start.is_const and start.const % slope.const == 0:
        op = ">" if down else "<"
    if op not in ((">", ">=") if down else ("<", "<=")):
        raise NotModelled("a loop counts in the direction away from its limit")
    left = (start if down else start * -1) + (1 if op.endswith("=") else 0)
    each = abs(slope.const) // step
    upper = left if each == 1 else quotient(left + (each - 1), each)
    return Count(variable, Expr(), upper, step)


def at_head(marked: Marked, count: Count, changing: Mapping[str, Marked]) -> Value:
    """The variable at the beginning of an iteration; `NotModelled` if no expression represents
    it."""
    return _solved(marked, count, changing)


def after_loop(
    marked: Marked, count: Count, changing: Mapping[str, Marked], ranges: Mapping[str, Bounds]
) -> Value:
    """The variable after the loop. `ranges` are those of the enclosing loops."""
    if marked.last == marked.mark:
        return marked.first
    end = count.lower + count.trips(ranges) * count.step
    head = _solved(marked, count, changing)
    return _at(head, {count.variable: end})


def _at(value: Value | None, put: Mapping[str, Expr]) -> Value:
    match value:
        case Expr():
            return value.substituted(put)
        case Local(space, row, flags) if not any(f.when for f in flags):
            return Local(space, row.substituted(put), flags)
        case Pointer(array, index, axis):
            return Pointer(array, tuple(e.substituted(put) for e in index), axis)
    raise NotModelled("the value of a variable after its loop is not an affine expression")


def _solved(marked: Marked, count: Count, changing: Mapping[str, Marked]) -> Value:
    first, mark, last = marked.first, marked.mark, marked.last
    if last == mark:
        return first
    match first, mark, last:
        case Expr(), Expr(), Expr():
            number = _number(first, mark, last, count)
            if number is not None:
                return number
            swapped = _swapped(marked, count, changing)
            if swapped is not None:
                return swapped
        case Local(), Local(), Local() if first.space == last.space:
            row = _number(first.row, mark.row, last.row, count)
            if row is not None:
                if last.flags == first.flags:
                    return Local(first.space, row, first.flags)
                again = choice(_first(count), Flags(first.flags), Flags(last.flags))
                assert isinstance(again, Flags)
                return Local(first.space, row, again.flags)
            swapped = _swapped(marked, count, changing)
            if swapped is not None:
                return swapped
        case Pointer(array, index, axis), Pointer(), Pointer() if axis == last.axis:
            parts = zip(index, mark.index, last.index, strict=True)
            new = [_number(f, m, e, count) for f, m, e in parts]
            if array == last.array and all(n is not None for n in new):
                return Pointer(array, tuple(n for n in new if n is not None), axis)
    if last is not None and not _names_of(last) & (_marks(changing) | {count.variable}):
        return choice(_first(count), first, last)
    previous = _previous(marked, count, changing)
    if previous is not None:
        begun = _at(previous, {count.variable: count.lower})
        return previous if begun == first else choice(_first(count), first, previous)
    raise NotModelled(
        "a loop changes a variable, and the new value is not an affine expression of the iteration"
    )


def _previous(marked: Marked, count: Count, changing: Mapping[str, Marked]) -> Value | None:
    """The value that the previous iteration left in a variable; None if it does not only depend on
    counters."""
    heads: dict[str, Expr] = {}
    for other in changing.values():
        if isinstance(other.first, Expr) and isinstance(other.mark, Expr) and other.step:
            heads |= _named(other.mark, other.first + count.times(other.step))
    if marked.last is None or _names_of(marked.last) & (_marks(changing) - set(heads)):
        return None
    before = var(count.variable) - count.step
    return _at(_at(marked.last, heads), {count.variable: before})


def _first(count: Count) -> Condition:
    return (Compare("==", var(count.variable), count.lower),)


def _number(first: Expr, mark: Expr, last: Expr, count: Count) -> Expr | None:
    step = _step(mark, last)
    if step is not None:
        return first + count.times(step)
    if last == Expr(1) - mark and _within(first, 2):
        return remainder(first + count.times(1), 2)
    toggled = _toggled(first, mark, last, count)
    if toggled is not None:
        return toggled
    if len(last.terms) == 1 and last.const == 0 and last.terms[0][1] == 1:
        atom = last.terms[0][0]
        if isinstance(atom, Remainder) and _within(first, atom.by):
            step = _step(mark, atom.of)
            if step is not None and _begins_whole(first, gcd(step, atom.by)):
                return remainder(first + count.times(step), atom.by)
    return None


def _toggled(first: Expr, mark: Expr, last: Expr, count: Count) -> Expr | None:
    """A number to which every iteration applies `^` with the same constant."""
    names = last.names()
    if names == mark.names() or {without_toggles(n) for n in names} != mark.names():
        return None
    name = next(iter(names))
    if last != var(name) or not first.is_const or first.const < 0:
        return None
    other = first.const ^ toggles_in(name)
    return first + remainder(count.times(1), 2) * (other - first.const)


def _within(value: Expr, size: int) -> bool:
    low, high = bounds(value, {})
    return (low >= 0 and high < size) or any(
        isinstance(a, Var) and a.name.endswith(MARK) for a, _ in value.terms
    )


def _begins_whole(value: Expr, step: int) -> bool:
    """Whether a value is a multiple of n: `== n ? 0` is a remainder of n only if the steps reach
    n."""
    begun = remainder(value, step)
    return begun == Expr(0) or any(name.endswith(MARK) for name in begun.names())


def _swapped(marked: Marked, count: Count, changing: Mapping[str, Marked]) -> Value | None:
    """Two variables whose values are exchanged in every iteration."""
    for other in changing.values():
        if other is marked or (marked.last, other.last) != (other.mark, marked.mark):
            continue
        bit = remainder(count.times(1), 2)
        match marked.first, other.first:
            case Expr() as mine, Expr() as its if (its - mine).is_const:
                return mine + bit * (its - mine).const
            case Local(space, row, flags), Local() as its if (its.space, its.flags) == (
                space,
                flags,
            ) and (its.row - row).is_const:
                return Local(space, row + bit * (its.row - row).const, flags)
    return None


def _step(mark: Expr, last: Expr) -> int | None:
    step = last - mark
    return step.const if step.is_const else None


def _terms(value: Value) -> list[tuple[object, int]]:
    match value:
        case Expr():
            return list(value.terms)
        case Pointer(_, index):
            return [t for e in index for t in e.terms]
    return []


def _names_of(value: Value) -> frozenset[str]:
    """Every variable in a value, and the marks on which it depends."""
    names = _written_names(value)
    return names | {without_toggles(name) for name in names}


def _written_names(value: Value) -> frozenset[str]:
    match value:
        case Expr():
            return value.names()
        case Local(_, row, flags):
            return row.names() | _tested([c for f in flags for c in f.when])
        case Pointer(_, index):
            return frozenset().union(*(e.names() for e in index))
        case Flags(flags):
            return _tested([c for f in flags for c in f.when])
        case Truth(condition):
            return _tested(list(condition))
    return frozenset()


def _tested(compares: list[Compare]) -> frozenset[str]:
    return frozenset().union(*(c.left.names() | c.right.names() for c in compares))


def _marks(changing: Mapping[str, Marked]) -> frozenset[str]:
    return frozenset().union(*(_names_of(m.mark) for m in changing.values()))
