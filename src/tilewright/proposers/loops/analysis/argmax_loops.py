"""Loops that search for the largest or smallest value and its place, such as argmax.

Each iteration compares a value with the best one so far, strictly, and keeps either the value and
its place, or only the place::

    int holds = X[i] > best;                   at = fabsf(X[i]) > fabsf(X[at]) ? i : at;
    best = holds ? X[i] : best;
    at = holds ? i : at;

Other conditions may exclude elements, as in ``int holds = M[i] != 0 ? X[i] > best : 0;``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    array_types,
    fresh,
    names_in,
    used_by,
)
from tilewright.proposers.loops.analysis.independence import extremes, is_inside
from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.c_types import RANGES, common, is_whole
from tilewright.proposers.loops.functions import type_of_call
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
    Negative,
    Number,
    Select,
    Type,
    Var,
    changed,
    parts,
    path_to,
    walk,
)

_PLACES = ("int", "int32_t", "uint32_t", "int64_t", "uint64_t")
"""Types that can represent every place, which is at least zero and less than 2^31."""
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=", "&&", "||")
_EXCHANGED = {"<": ">", ">": "<"}


@dataclass(frozen=True, slots=True)
class Search:
    """A search in which `value` (computed by `declared`) replaces `best`, and `place` replaces
    `at`, if `value operator best` and all conditions in `allowed` hold.

    The place grows with the iterations, or shrinks if `grows` is false. `first` is the value of
    `best` before the loop if the kernel has no such variable.
    """

    best: str
    best_type: Type
    at: str
    at_type: Type
    declared: tuple[Declare, ...]
    value: Expr
    operator: str
    place: Expr
    grows: bool
    first: Expr | None
    allowed: tuple[Expr, ...] = ()


def search_of(loop: For, types: Mapping[str, Type], kernel: Kernel) -> Search:
    """The search that a loop performs. Raises `NotApplicableError`.

    `types` are the types of the variables that are visible at the beginning of the loop.
    """
    declared = tuple(s for s in loop.body if isinstance(s, Declare))
    assigned: Sequence[Assign] = [s for s in loop.body if isinstance(s, Assign)]
    own: _Own = {s.name: s.value for s in declared}
    if (*declared, *assigned) != loop.body or any(s.sizes or s.value is None for s in declared):
        raise NotApplicableError("the loop does more than search for one value")
    targets = [s.target.name for s in assigned if isinstance(s.target, Var)]
    if len(targets) != len(assigned) or {*targets} & {*own} or len({*targets}) != len(targets):
        raise NotApplicableError("the loop does more than search for one value")
    allowed: tuple[Expr, ...] = ()
    if len(assigned) == 1:
        found = _by_place(assigned[0], own, kernel)
    elif len(assigned) == 2:
        assigned, own, allowed = _without_exclusions(assigned, own)
        found = _by_value(assigned, own)
    else:
        found = None
    if found is None:
        raise NotApplicableError("the loop does not search for a value")
    best, at, (value, operator), place, first = found
    if allowed:
        _require_harmless((value, *allowed), loop, kernel)
    least, most = extremes(place, [loop])
    terms, _ = linear(place)
    if {*terms} != {Var(loop.variable)} or least is None or most is None:
        raise NotApplicableError("the position is not the loop's variable plus a number")
    if least < 0 or most > RANGES["int"][1]:
        raise NotApplicableError("positions may be negative or too large")
    at_type = types.get(at)
    of_elements = type_of(first, array_types(kernel)) if first is not None else None
    best_type = types.get(best) if first is None else of_elements
    if at_type not in _PLACES or best_type is None or best_type == "vector":
        raise NotApplicableError("the type of the position or of the value is not supported")
    arrays = array_types(kernel)
    known = {**arrays, **types, **{s.name: s.type for s in declared}}
    if not _keeps(type_of(value, known), best_type):
        raise NotApplicableError(f"the value changes when it is converted to {best_type}")
    used = [e for s in declared if s.value is not None for e in walk(s.value)]
    used += [*walk(value), *walk(place), *(e for c in allowed for e in walk(c))]
    reads = sum(e in (Var(best), Var(at)) for e in used)
    if reads > sum(_holds(v, best, at) for v in own.values()):
        raise NotApplicableError("the loop uses the best value for more than the comparison")
    kept = tuple(s for s in declared if not _holds(own[s.name], best, at))
    dropped = {Var(s.name) for s in declared} - {Var(s.name) for s in kept}
    remaining = [e for s in kept if s.value is not None for e in walk(s.value)]
    if dropped & {*remaining, *walk(value), *(e for c in allowed for e in walk(c))}:
        raise NotApplicableError(
            "the loop uses the result of the comparison for more than the choice"
        )
    grows = terms[Var(loop.variable)] > 0
    if first is not None:
        best = fresh("best", names_in(kernel))
    return Search(best, best_type, at, at_type, kept, value, operator, place, grows, first, allowed)


_Found = tuple[str, str, tuple[Expr, str], Expr, Expr | None]
"""The variable of the best value and that of its index, the compared value with the comparison
operator, the index, and the first value if the kernel has no variable for it."""


_Own = Mapping[str, Expr | None]
"""The values of the variables that an iteration declares."""


def _without_exclusions(
    assigned: Sequence[Assign], own: _Own
) -> tuple[Sequence[Assign], _Own, tuple[Expr, ...]]:
    """The assignments and declared values with only the comparison as condition, and the other
    conditions that must hold.

    There are no other conditions if the assignments do not have the same ones.
    """
    changing = {s.target_name for s in assigned}
    as_they_are = assigned, own, ()
    kept: dict[str, Expr | None] = {**own}
    made: list[Assign] = []
    found: list[list[Expr]] = []
    for statement in assigned:
        value = statement.value
        if not isinstance(value, Select):
            return as_they_are
        conditions = [*dict.fromkeys(_all_of(value.condition, own, changing))]
        tests = [c for c in conditions if changing & _names_of(c, own)]
        if len(tests) != 1:
            return as_they_are
        condition = tests[0]
        if condition not in walk(value.condition):  # it was computed before the first assignment
            name = next(n for n, v in own.items() if v is not None and condition in walk(v))
            kept[name], condition = condition, Var(name)
        made.append(Assign(statement.target, replace(value, condition=condition)))
        found.append([c for c in conditions if c != tests[0]])
    if not found[0] or found[0] != found[1]:
        return as_they_are
    return made, kept, tuple(found[0])


def _all_of(condition: Expr, own: _Own, changing: set[str]) -> Iterator[Expr]:
    """Conditions that all must hold for a condition to hold."""
    if isinstance(condition, Var) and changing & _names_of(condition, own):
        inner = own.get(condition.name)
        if isinstance(inner, (Binary, Select)) and _is_truth_value(inner):
            yield from _all_of(inner, own, changing)
            return
    if isinstance(condition, Binary) and condition.operator == "&&":
        yield from _all_of(condition.left, own, changing)
        yield from _all_of(condition.right, own, changing)
    elif isinstance(condition, Select) and condition.other == Number("0"):
        yield from _all_of(condition.condition, own, changing)
        yield from _all_of(condition.value, own, changing)
    else:
        yield condition


def _is_truth_value(expr: Expr) -> bool:
    """Whether an expression is 1 or 0, which variables of all types keep.

    Variables of whole numbers keep no other condition: 0.5 becomes 0.
    """
    if isinstance(expr, Select):
        return _is_truth_value(expr.value) and expr.other == Number("0")
    return isinstance(expr, Binary) and expr.operator in _COMPARISONS


def _names_of(expr: Expr, own: _Own) -> set[str]:
    """Variables and arrays in an expression, also in the declared values that it uses."""
    names = used_by(expr)
    return names.union(*(_names_of(own[n] or Number("0"), own) for n in names if n in own))


def _require_harmless(exprs: Sequence[Expr], loop: For, kernel: Kernel) -> None:
    """Raise if expressions cannot be computed where a condition excludes an element."""
    path = path_to(loop, kernel.body)
    for e in (e for expr in exprs for e in walk(expr)):
        if isinstance(e, Element) and not is_inside(e, path, kernel):
            raise NotApplicableError(f"excluded elements of {e.array} may not exist")
        if isinstance(e, Binary) and e.operator in ("/", "%"):
            raise NotApplicableError("the loop divides under a condition")
        if isinstance(e, Binary) and e.operator in ("<<", ">>") and not isinstance(e.right, Number):
            raise NotApplicableError("the loop shifts by a variable under a condition")


def _by_value(assigned: Sequence[Assign], own: Mapping[str, Expr | None]) -> _Found | None:
    """A search that keeps the value and its place."""
    for number, kept in enumerate(assigned):
        other = assigned[1 - number]
        assert isinstance(kept.target, Var)
        assert isinstance(other.target, Var)
        best, at = kept.target, other.target
        test = _condition(kept.value, own)
        if test is None or _condition(other.value, own) != test:
            continue
        compared = _compared(test, best)
        if compared is None or not isinstance(kept.value, Select):
            continue
        assert isinstance(other.value, Select)
        inline = not isinstance(other.value.condition, Var)
        if inline and number == 0:
            continue  # the condition of the second assignment sees the new value
        if (kept.value.value, kept.value.other) != (compared[0], best) or other.value.other != at:
            continue
        place = _without_cast(other.value.value)
        return best.name, at.name, compared, place, None
    return None


def _by_place(kept: Assign, own: Mapping[str, Expr | None], kernel: Kernel) -> _Found | None:
    """A search that keeps only the place of the best element."""
    assert isinstance(kept.target, Var)
    at = kept.target
    test = _condition(kept.value, own)
    if test is None or not isinstance(kept.value, Select) or kept.value.other != at:
        return None
    place = _without_cast(kept.value.value)
    for value, first, operator in (
        (test.left, test.right, test.operator),
        (test.right, test.left, _EXCHANGED[test.operator]),
    ):
        if not _is_exact(first, kernel) or at in walk(value) or not isinstance(place, Var):
            continue
        here = changed(first, lambda e: place if e == at else e)
        if here == value and at in walk(first):
            return f"best of {at.name}", at.name, (value, operator), place, first
    return None


def _condition(value: Expr, own: Mapping[str, Expr | None]) -> Binary | None:
    """The strict comparison that decides between two values."""
    test: Expr | None = value.condition if isinstance(value, Select) else None
    if isinstance(test, Var):
        test = own.get(test.name)
    return test if isinstance(test, Binary) and test.operator in _EXCHANGED else None


def _compared(test: Binary, best: Var) -> tuple[Expr, str] | None:
    """The value that is compared with the best one so far, and the comparison operator."""
    if test.right == best and best not in walk(test.left):
        return test.left, test.operator
    if test.left == best and best not in walk(test.right):
        return test.right, _EXCHANGED[test.operator]
    return None


def _holds(value: Expr | None, best: str, at: str) -> bool:
    """Whether a declared value is the result of the comparison with the best value so far."""
    return (
        isinstance(value, Binary)
        and value.operator in _EXCHANGED
        and any(e in (Var(best), Var(at)) for e in walk(value))
    )


def _without_cast(place: Expr) -> Expr:
    return place.value if isinstance(place, Cast) and place.type in _PLACES else place


def _is_exact(expr: Expr, kernel: Kernel) -> bool:
    """Whether a value is an element, perhaps its magnitude or its negative, which no compiler
    computes with more precision in one place than in another."""
    if isinstance(expr, Element):
        kind = array_types(kernel).get(expr.array)
        return kind is not None and (is_whole(kind) or kind in ("float", "double"))
    if isinstance(expr, Negative):
        return _is_exact(expr.value, kernel)
    magnitude = isinstance(expr, Call) and expr.function in ("fabsf", "fabs")
    return magnitude and all(_is_exact(part, kernel) for part in parts(expr))


def _keeps(kind: Type | None, other: Type) -> bool:
    """Whether a conversion from one type to another keeps all values and the results of
    comparisons."""
    if kind == other:
        return True
    if kind is None or not is_whole(kind) or not is_whole(other):
        return (kind, other) == ("float", "double")
    return RANGES[other][0] <= RANGES[kind][0] and RANGES[kind][1] <= RANGES[other][1]


def type_of(expr: Expr, known: Mapping[str, Type]) -> Type | None:
    """The C type of a value; None if it is not known."""
    if isinstance(expr, (Var, Element)):
        return known.get(expr.name if isinstance(expr, Var) else expr.array)
    if isinstance(expr, Cast):
        return expr.type
    if isinstance(expr, Call):
        return type_of_call(expr.function)
    if isinstance(expr, Number):
        return "int" if expr.text.isdigit() else "float" if expr.text[-1] in "fF" else "double"
    sides: tuple[Expr, ...] = ()
    if isinstance(expr, Negative):
        sides = (expr.value, expr.value)
    elif isinstance(expr, Binary) and expr.operator in _COMPARISONS:
        return "int"
    elif isinstance(expr, Binary) and expr.operator in ("+", "-", "*", "/", "%", "&", "|", "^"):
        sides = (expr.left, expr.right)
    elif isinstance(expr, Select):
        sides = (expr.value, expr.other)
    kinds = [type_of(side, known) for side in sides]
    if len(kinds) < 2 or kinds[0] is None or kinds[1] is None:
        return None
    return common(kinds[0], kinds[1])
