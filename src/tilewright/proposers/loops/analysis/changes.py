"""Finds what a loop changes and what it carries from one iteration to the next."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tilewright.proposers.loops.ir import (
    Address,
    Assign,
    Binary,
    Call,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Number,
    Select,
    Statement,
    Type,
    Var,
    expressions,
    statements,
    walk,
)

_KINDS: Mapping[str, str] = {
    "fmaxf": "most", "fmax": "most", "v_max": "most", "fminf": "least", "fmin": "least",
    "v_min": "least",
}  # fmt: skip


class NotApplicableError(Exception):
    """A rewrite is not possible at a place, or cannot be shown to keep the result."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """A variable to which a loop only adds (`sum`), or of which it keeps the largest or smallest
    value."""

    name: str
    kind: str
    type: Type


def array_types(kernel: Kernel) -> dict[str, Type]:
    """Element types of parameters and static arrays, by name."""
    return {p.name: p.type for p in (*kernel.parameters, *kernel.scratch)}


def element_types(kernel: Kernel) -> dict[str, Type]:
    """Element types of all arrays of a kernel, also of those that statements declare."""
    declared = (s for s in statements(kernel.body) if isinstance(s, Declare))
    return array_types(kernel) | {s.name: s.type for s in declared if s.sizes}


def visible_types(kernel: Kernel, number: int) -> dict[str, Type]:
    """Types of the variables that are visible at the beginning of loop `number`."""
    count = -1

    def search(body: tuple[Statement, ...], known: dict[str, Type]) -> dict[str, Type] | None:
        nonlocal count
        known = dict(known)
        for statement in body:
            if isinstance(statement, Declare) and not statement.sizes:
                known[statement.name] = statement.type
            elif isinstance(statement, For):
                count += 1
                if count == number:
                    return known
                found = search(statement.body, {**known, statement.variable: "int"})
                if found is not None:
                    return found
        return None

    return search(kernel.body, {}) or {}


def hidden_name(body: tuple[Statement, ...], visible: Collection[str]) -> str | None:
    """A name whose declaration hides an outer declaration of the same name, or None.

    Variables are identified by their names, so two variables with the same name would be confused.
    """
    known = set(visible)
    for statement in body:
        if not isinstance(statement, (Declare, For)):
            continue
        name = statement.name if isinstance(statement, Declare) else statement.variable
        if name in known:
            return name
        if isinstance(statement, Declare):
            known.add(name)
            continue
        hidden = hidden_name(statement.body, {*known, name})
        if hidden is not None:
            return hidden
    return None


def declared_in(body: tuple[Statement, ...]) -> dict[str, Type]:
    """Variables that statements declare, at any depth; `NotApplicableError` if they declare
    arrays."""
    found: dict[str, Type] = {}
    for statement in statements(body):
        if isinstance(statement, Declare):
            if statement.sizes:
                raise NotApplicableError(f"the loop declares the array {statement.name}")
            found[statement.name] = statement.type
    return found


def declared_names(body: tuple[Statement, ...]) -> dict[str, None]:
    """Names of the variables and arrays that statements declare, at any depth, in their order."""
    return dict.fromkeys(s.name for s in statements(body) if isinstance(s, Declare))


def arrays_in(body: tuple[Statement, ...]) -> dict[str, tuple[int, ...]]:
    """Arrays that statements declare, at any depth, with their sizes."""
    declared = (s for s in statements(body) if isinstance(s, Declare))
    return {s.name: s.sizes for s in declared if s.sizes}


def changed_by(loop: For) -> set[str]:
    """Variables whose values change while a loop runs: its own variable, and those that its body
    assigns."""
    return {loop.variable} | set_by(loop.body)


def set_by(body: tuple[Statement, ...]) -> set[str]:
    """Variables that statements declare or assign, at any depth."""
    found: set[str] = set()
    for statement in statements(body):
        if isinstance(statement, For):
            found.add(statement.variable)
        elif isinstance(statement, Declare):
            found.add(statement.name)
        elif isinstance(statement, Assign) and isinstance(statement.target, Var):
            found.add(statement.target.name)
    return found


def assigned_in(body: tuple[Statement, ...]) -> set[str]:
    """Variables, not arrays, that statements assign after their declaration."""
    return {
        statement.target.name
        for statement in statements(body)
        if isinstance(statement, Assign) and isinstance(statement.target, Var)
    }


def touched_by(body: tuple[Statement, ...]) -> set[str]:
    """Variables and arrays that statements declare or assign, at any depth."""
    return set_by(body) | {s.target_name for s in statements(body) if isinstance(s, Assign)}


def changed_outside(body: tuple[Statement, ...]) -> set[str]:
    """Variables and arrays that statements assign and do not declare, at any depth."""
    assigned = {s.target_name for s in statements(body) if isinstance(s, Assign)}
    return assigned - {*declared_names(body)}


def used_by(expr: Expr) -> set[str]:
    """Variables and arrays in an expression."""
    return {
        e.name if isinstance(e, Var) else e.array
        for e in walk(expr)
        if isinstance(e, (Var, Element, Load, Address))
    }


def reductions(loop: For, types: Mapping[str, Type], but: Collection[str] = ()) -> list[Reduction]:
    """All reductions of a loop; `NotApplicableError` if it carries a variable that is not a
    reduction.

    Variables in `but` are ignored, and so are arrays that the loop declares.
    """
    own = declared_names(loop.body)
    kinds: dict[str, str] = {}
    reads: dict[str, int] = {}
    for expr in expressions(loop.body):
        if isinstance(expr, Var):
            reads[expr.name] = reads.get(expr.name, 0) + 1
    for statement in statements(loop.body):
        if isinstance(statement, Assign) and isinstance(statement.target, Var):
            name = statement.target.name
            if name in own or name in but:
                continue
            kind = reduction_of(name, statement.value)
            if kind is None or kinds.setdefault(name, kind) != kind:
                raise NotApplicableError(f"{name} is carried from one iteration to the next")
            own_reads = sum(e == Var(name) for e in walk(statement.value))
            reads[name] -= 1 + own_reads  # once as the target, and once as an operand
    for name in kinds:
        if reads[name]:
            raise NotApplicableError(f"{name} is used during its reduction")
        if types.get(name) not in ("float", "double", "vector"):
            raise NotApplicableError(f"{name} is not a float")
    return [Reduction(name, kind, types[name]) for name, kind in kinds.items()]


def scans(loop: For, types: Mapping[str, Type]) -> dict[str, str]:
    """Running sums, maxima and minima of a loop, with their kinds as in `Reduction`: variables that
    each iteration changes once, and which it also reads.

    If a sum is read before the addition, the added value can be computed before that read.
    """
    found: dict[str, str] = {}
    own = declared_in(loop.body)
    for place, statement in enumerate(loop.body):
        if not isinstance(statement, Assign) or not isinstance(statement.target, Var):
            continue
        name = statement.target.name
        kind = reduction_of(name, statement.value)
        if types.get(name) != "float" or name in own or kind is None:
            continue
        others = (*loop.body[:place], *loop.body[place + 1 :])
        reads = [s for s in others if any(e == Var(name) for e in expressions((s,)))]
        again = any(isinstance(s, Assign) and s.target == Var(name) for s in statements(others))
        inside = any(isinstance(s, For) for s in reads)
        if (kind == "sum" and not isinstance(statement.value, Binary)) or not reads:
            continue
        if again or inside:
            continue
        first = next(i for i, s in enumerate(loop.body) if s is reads[0] or s is statement)
        early = loop.body[first:place]
        if _may_move(statement, early) and (kind == "sum" or not early):
            found[name] = kind
    return found


def _may_move(statement: Assign, over: tuple[Statement, ...]) -> bool:
    """Whether a value can be computed before other statements."""
    return not touched_by(over) & used_by(statement.value)


def reduction_of(name: str, value: Expr) -> str | None:
    """The reduction that an assigned value performs on a variable, or None."""
    operands: tuple[Expr, ...] = ()
    kind = None
    if isinstance(value, Binary) and value.operator == "+":
        operands, kind = (value.left, value.right), "sum"
    elif isinstance(value, Binary) and value.operator == "-" and value.left == Var(name):
        operands, kind = (value.left,), "sum"
    elif isinstance(value, Call):
        operands, kind = value.arguments, _KINDS.get(value.function)
    if isinstance(value, Select):
        return _chosen(name, value)
    if kind is None or sum(o == Var(name) for o in operands) != 1:
        return None
    used = sum(e == Var(name) for e in walk(value))
    return kind if used == 1 else None


def _chosen(name: str, value: Select) -> str | None:
    """The reduction that a choice performs on a variable: the larger, the smaller, or a conditional
    sum."""
    test = value.condition
    if value.other == Var(name) and all(e != Var(name) for e in walk(test)):
        return "sum" if reduction_of(name, value.value) == "sum" else None
    if not isinstance(test, Binary) or test.operator not in ("<", "<=", ">", ">="):
        return None
    sides, chosen = (test.left, test.right), (value.value, value.other)
    if sides not in (chosen, chosen[::-1]) or sum(side == Var(name) for side in sides) != 1:
        return None
    if sum(e == Var(name) for e in walk(value)) != 2:
        return None
    larger = test.left if test.operator[0] == ">" else test.right
    return "most" if value.value == larger else "least"


def coefficient(expr: Expr, variable: str) -> int:
    """The factor by which a subscript grows with a variable. Raises `NotApplicableError`."""
    if isinstance(expr, Number):
        return 0
    if isinstance(expr, Var):
        return int(expr.name == variable)
    if isinstance(expr, Binary) and expr.operator in "+-":
        sign = 1 if expr.operator == "+" else -1
        return coefficient(expr.left, variable) + sign * coefficient(expr.right, variable)
    if all(e != Var(variable) for e in walk(expr)):
        return 0
    if isinstance(expr, Binary) and expr.operator == "*":
        for number, other in ((expr.left, expr.right), (expr.right, expr.left)):
            if isinstance(number, Number) and number.text.isdigit():
                return int(number.text) * coefficient(other, variable)
    raise NotApplicableError("a subscript is not linear")


def names_in(kernel: Kernel) -> set[str]:
    """Every name that a kernel uses."""
    found = {p.name for p in (*kernel.parameters, *kernel.scratch)}
    for statement in statements(kernel.body):
        if isinstance(statement, Declare):
            found.add(statement.name)
        elif isinstance(statement, For):
            found.add(statement.variable)
    return found | {e.name for e in expressions(kernel.body) if isinstance(e, Var)}


def fresh(base: str, taken: set[str]) -> str:
    """A name similar to `base` that is not used yet; it counts as used from now on."""
    number = 1
    while f"{base}_{number}" in taken:
        number += 1
    taken.add(f"{base}_{number}")
    return f"{base}_{number}"
