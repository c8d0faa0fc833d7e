"""Loops that process a remaining amount, in which every iteration except the last takes a full
step.

`while (left > 0) { h = left < 16 ? left : 16; .. at += h; left -= h; }` continues only if `left`
was larger than 16. So at the beginning of an iteration, all earlier ones took 16, and every
variable counts regularly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tilewright.proposers.rewriter.expr import Atom, Bounds, Expr, Minimum, bounds
from tilewright.proposers.rewriter.ir import Condition, Local
from tilewright.proposers.rewriter.lifting.induction import Count, Marked, at_head, mark_values
from tilewright.proposers.rewriter.lifting.symbolic_values import NotModelled, Pointer, Value


def steady(condition: Condition, changing: Mapping[str, Marked]) -> dict[str, Marked]:
    """The values of the variables after an iteration that is followed by another one."""
    step = _whole_step(condition, changing)
    if step is None:
        return dict(changing)
    atom, whole = step
    return {
        name: marked
        if marked.last is None
        else replace(marked, last=_mapped(marked.last, lambda e: e.replaced(atom, whole)))
        for name, marked in changing.items()
    }


def after_last(
    name: str,
    exact: Mapping[str, Marked],
    even: Mapping[str, Marked],
    count: Count,
    ranges: Mapping[str, Bounds],
) -> Value:
    """The value of a variable after its loop, computed from the values at the beginning of the last
    iteration. `ranges` are those of the enclosing loops."""
    last, trips = exact[name].last, count.trips(ranges)
    if bounds(trips, ranges)[0] < 1:
        raise NotModelled("a loop may have no iteration")
    if last is None:
        raise NotModelled(f"the value of {name} after its loop is unknown")
    heads = {n: replace(m, first=at_head(m, count, even)) for n, m in even.items()}
    final = {count.variable: count.lower + (trips - 1) * count.step}
    values = mark_values(heads)
    return _mapped(last, lambda e: e.substituted(values).substituted(final))


def _whole_step(condition: Condition, changing: Mapping[str, Marked]) -> tuple[Atom, Expr] | None:
    """The minimum by which the remaining amount decreases, and its value if another iteration
    follows."""
    if len(condition) != 1:
        return None
    compare = condition[0]
    distance = compare.left - compare.right
    if compare.op in ("<", "<="):
        distance = distance * -1
    if compare.op in ("<=", ">="):
        distance = distance + 1
    if compare.op == "==":
        return None
    lasts: dict[str, Expr] = {}
    for marked in changing.values():
        if isinstance(marked.mark, Expr) and isinstance(marked.last, Expr):
            lasts |= dict.fromkeys(marked.mark.names(), marked.last)
    for left in (distance, distance * -1) if compare.op == "!=" else (distance,):
        match left - left.substituted(lasts):
            case Expr(0, ((Minimum(first, second) as atom, 1),)):
                whole = second if first == left else first
                if left in (first, second) and whole.is_const and whole.const > 0:
                    start = left.substituted(mark_values(changing))
                    if compare.op != "!=" or (start.is_const and start.const >= 0):
                        return atom, whole
    return None


def _mapped(value: Value, change: Callable[[Expr], Expr]) -> Value:
    match value:
        case Expr():
            return change(value)
        case Local(space, row, flags):
            return Local(space, change(row), flags)
        case Pointer(array, index, axis):
            return Pointer(array, tuple(change(e) for e in index), axis)
    return value
