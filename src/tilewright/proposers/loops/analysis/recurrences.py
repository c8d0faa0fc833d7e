"""Finds the chains of operations that lead from one iteration of an innermost loop to the next.

Example: in

    for (int i = 0; i < 64; i++) { float y = X[i] - lost; lost = y * 0.5f; }

the chain from `lost` to its next value consists of a subtraction and a product, 8 cycles. However
many operations a processor can start in a cycle, an iteration takes at least this long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.proposers.loops.analysis.changes import NotApplicableError, coefficient
from tilewright.proposers.loops.c_types import is_whole
from tilewright.proposers.loops.functions import SCALAR_OF_REDUCTION
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Call,
    Cast,
    Declare,
    Element,
    Expr,
    For,
    Load,
    Negative,
    Select,
    Statement,
    Type,
    Var,
    parts,
    walk,
)
from tilewright.proposers.loops.mathematical import MATHEMATICAL_TEXTS

CHEAP_CALLS = ("sqrt", "fabs", "fmax", "fmin", "floor", "ceil", "trunc", "rint", "fma")
"""Beginnings of the names of functions of math.h that are single instructions."""
_OF_FLOATS, _OF_WHOLE, _WHOLE_PRODUCT, _DIVISION, _CALL = 4.0, 1.0, 3.0, 12.0, 20.0
"""Cycles until the result of an operation can be used."""
_THROUGH_MEMORY = 5.0
"""Cycles from writing an element to the result of reading it."""


@dataclass(frozen=True, slots=True)
class Types:
    """Types of arrays and variables, and the names of the variables that a loop changes."""

    arrays: Mapping[str, Type]
    variables: Mapping[str, Type]
    changing: frozenset[str] = frozenset()

    def of(self, expr: Expr) -> Type:
        """The type of an expression; integers computed from others are `int`."""
        if isinstance(expr, Element):
            return self.arrays.get(expr.array, "float")
        if isinstance(expr, Load):
            return "vector"
        if isinstance(expr, Var):
            return self.variables.get(expr.name, "int")
        if isinstance(expr, Cast):
            return expr.type
        if isinstance(expr, Call) and expr.function in SCALAR_OF_REDUCTION:
            return "float"
        kinds = {self.of(part) for part in parts(expr)}
        wide: tuple[Type, ...] = ("vector", "double", "float")
        return next((kind for kind in wide if kind in kinds), "int")

    def stride(self, element: Element | Load, loop: For) -> int | None:
        """Number of elements from that of an iteration to that of the next one.

        None if they lie in different rows, or if their distance is not constant.
        """
        for subscript in element.subscripts:
            for expr in walk(subscript):
                if isinstance(expr, Element) or (
                    isinstance(expr, Var) and expr.name in self.changing
                ):
                    return None
        try:
            *outer, last = (coefficient(s, loop.variable) for s in element.subscripts)
        except NotApplicableError:
            return None
        return None if any(outer) else last


def computed_by(statement: Statement) -> list[Expr]:
    """The target and the expressions that a statement computes, without subscripts of elements."""
    found: list[Expr] = []

    def visit(expr: Expr) -> None:
        found.append(expr)
        for part in () if isinstance(expr, (Element, Load)) else parts(expr):
            visit(part)

    if isinstance(statement, Assign):
        visit(statement.target)
    if isinstance(statement, (Assign, Declare)) and statement.value is not None:
        visit(statement.value)
    return found


def carried_by(body: Sequence[Statement]) -> set[str]:
    """Variables that an iteration may pass on to the next one."""
    assigned = {s.target.name for s in body if isinstance(s, Assign) and isinstance(s.target, Var)}
    return assigned - {s.name for s in body if isinstance(s, Declare)}


def longest_chain(loop: For, types: Types) -> float:
    """Cycles of the longest chain of operations from an iteration of an innermost loop to the
    next."""
    chains = [_chain_of(name, loop.body, types) for name in carried_by(loop.body)]
    assigned = [s for s in loop.body if isinstance(s, Assign)]
    for array in {s.target.array for s in assigned if isinstance(s.target, Element)
                  and types.stride(s.target, loop) in (0, None)}:  # fmt: skip
        read = (e for s in assigned for e in walk(s.value))
        reads = sum(isinstance(e, Element) and e.array == array for e in read)
        chains.append(_THROUGH_MEMORY * reads)
    return max(chains, default=0.0)


def _chain_of(name: str, body: Sequence[Statement], types: Types) -> float:
    """Cycles from a variable to its value in the next iteration; 0 if it does not depend on it."""
    after: dict[str, float] = {name: 0.0}

    def cycles_to(expr: Expr) -> float | None:
        if isinstance(expr, Var):
            return after.get(expr.name)
        found = [cycles for part in parts(expr) if (cycles := cycles_to(part)) is not None]
        return max(found) + _latency(expr, types) if found else None

    for statement in body:
        if isinstance(statement, Declare) and statement.value is not None:
            target = statement.name
        elif isinstance(statement, Assign) and isinstance(statement.target, Var):
            target = statement.target.name
        else:
            continue
        assert statement.value is not None
        cycles = cycles_to(statement.value)
        if cycles is None:
            after.pop(target, None)
        else:
            after[target] = cycles
    return after.get(name, 0.0)


def _latency(expr: Expr, types: Types) -> float:
    whole = is_whole(types.of(expr))
    if isinstance(expr, Binary) and expr.operator in "/%":
        return _DIVISION
    if isinstance(expr, Binary) and expr.operator == "*" and whole:
        return _WHOLE_PRODUCT
    if isinstance(expr, (Binary, Select)):
        return _OF_WHOLE if whole else _OF_FLOATS
    if isinstance(expr, Call):
        is_long = expr.function in MATHEMATICAL_TEXTS or not expr.function.startswith(
            ("v_", *CHEAP_CALLS)
        )
        return _CALL if is_long else _OF_FLOATS
    if isinstance(expr, Element):
        return _THROUGH_MEMORY
    return _OF_WHOLE if isinstance(expr, (Cast, Negative)) else 0.0
