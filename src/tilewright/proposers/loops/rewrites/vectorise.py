"""Vectorise a loop: `lanes` iterations become one on vectors.

Before::

    for (int c = 0; c < 1000; c++) sum = sum + X[r][c] * X[r][c];

After (16 lanes)::

    vf sum_1 = v_splat(0.0f);
    for (int c = 0; c < 992; c += 16)
      sum_1 = sum_1 + *(const vf *)&X[r][c] * *(const vf *)&X[r][c];
    sum = sum + v_sum(sum_1);
    for (int c = 992; c < 1000; c++) sum = sum + X[r][c] * X[r][c];

Loops inside stay: what is private to an iteration becomes a vector, what does not change with the
loop's variable stays a scalar.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tilewright.proposers.loops.analysis import (
    NotApplicableError,
    Reduction,
    coefficient,
    declared_in,
    fresh,
    names_in,
    reductions,
    visible_types,
)
from tilewright.proposers.loops.functions import VECTOR_OF
from tilewright.proposers.loops.independence import require_independent
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Call,
    Command,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Negative,
    Number,
    Statement,
    Var,
    changed_in,
    expressions,
    loops,
    statements,
    walk,
    with_loop,
)

COMBINED = {"sum": "v_sum", "most": "v_most", "least": "v_least"}
SCALAR = {"most": "fmaxf", "least": "fminf"}


def vectorise(kernel: Kernel, number: int, lanes: int) -> Kernel:
    """The kernel with loop `number` vectorised. Raises `NotApplicableError`."""
    loop = loops(kernel)[number]
    if loop.step != 1 or loop.trips < lanes or kernel.lanes not in (0, lanes):
        raise NotApplicableError("the loop has other steps, or too few")
    if lanes & (lanes - 1):
        raise NotApplicableError(f"{lanes} lanes are no power of two")
    types = visible_types(kernel, number)
    own = declared_in(loop.body)
    plain = all(p.type == "float" for p in kernel.parameters)
    if not plain or any(isinstance(s, Command) for s in statements(loop.body)):
        raise NotApplicableError("there is more in the loop than arithmetic on floats")
    declared = [s for s in statements(kernel.body) if isinstance(s, Declare)]
    of_vectors = {s.name for s in declared if s.type == "vector" and s.sizes}
    if "vector" in own.values() or any(
        isinstance(e, Load) or (isinstance(e, Element) and e.array in of_vectors)
        for e in expressions(loop.body)
    ):
        raise NotApplicableError("there are vectors in the loop already")
    found = reductions(loop, types)
    if any(r.type != "float" for r in found):
        raise NotApplicableError("a vector is reduced")
    require_independent(loop, kernel)
    taken = names_in(kernel)
    partial = {r.name: fresh(r.name, taken) for r in found}
    body = tuple(changed_in(s, lambda e: _renamed(e, partial)) for s in loop.body)
    converter = _Converter(loop.variable, own, set(partial.values()))
    vectors = converter.converted(body)
    main = loop.first + loop.trips // lanes * lanes
    new: list[Statement] = [
        Declare("vector", partial[r.name], (), Call("v_splat", (_identity(r),))) for r in found
    ]
    new.append(replace(loop, last=main, step=lanes, body=vectors))
    new += [Assign(Var(r.name), _combined(r, partial[r.name])) for r in found]
    if main < loop.last:
        new.append(replace(loop, first=main, threads=1))
    return replace(with_loop(kernel, number, tuple(new)), lanes=lanes)


def _renamed(expr: Expr, names: dict[str, str]) -> Expr:
    return Var(names[expr.name]) if isinstance(expr, Var) and expr.name in names else expr


def _identity(reduction: Reduction) -> Expr:
    return Number("0.0f") if reduction.kind == "sum" else Var(reduction.name)


def _combined(reduction: Reduction, partial: str) -> Expr:
    lanes = Call(COMBINED[reduction.kind], (Var(partial),))
    if reduction.kind == "sum":
        return Binary("+", Var(reduction.name), lanes)
    return Call(SCALAR[reduction.kind], (Var(reduction.name), lanes))


class _Converter:
    """Turns statements of one iteration into those of `lanes` iterations."""

    def __init__(self, variable: str, own: Collection[str], vectors: set[str]) -> None:
        self._variable = variable
        self._own = own
        self._vectors = vectors

    def converted(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """The statements, once it is known which variables hold vectors."""
        while True:
            known = len(self._vectors)
            converted = tuple(self._statement(s) for s in body)
            if len(self._vectors) == known:
                return converted

    def _statement(self, statement: Statement) -> Statement:
        if isinstance(statement, For):
            return replace(statement, body=tuple(self._statement(s) for s in statement.body))
        if isinstance(statement, Declare):
            return self._declaration(statement)
        assert isinstance(statement, Assign)
        target, value = statement.target, self._value(statement.value)
        if isinstance(target, Var):
            if self._is_vector(value) and target.name in self._own:
                self._vectors.add(target.name)
            wanted = target.name in self._vectors
            return Assign(target, self._splat(value) if wanted else value)
        assert isinstance(target, Element)
        place = self._value(target)
        if not isinstance(place, Load):
            raise NotApplicableError(f"all iterations write the same element of {target.array}")
        return Assign(place, self._splat(value))

    def _declaration(self, statement: Declare) -> Statement:
        if statement.type != "float":
            raise NotApplicableError(f"{statement.name} is no float")
        value = None if statement.value is None else self._value(statement.value)
        if value is not None and self._is_vector(value):
            self._vectors.add(statement.name)
        if statement.name not in self._vectors:
            return statement
        return replace(
            statement, type="vector", value=None if value is None else self._splat(value)
        )

    def _splat(self, value: Expr) -> Expr:
        return value if self._is_vector(value) else Call("v_splat", (value,))

    def _is_vector(self, value: Expr) -> bool:
        return any(
            isinstance(e, Load) or (isinstance(e, Var) and e.name in self._vectors)
            for e in walk(value)
        )

    def _value(self, expr: Expr) -> Expr:
        if expr == Var(self._variable):
            raise NotApplicableError("the loop's variable is used as a number")
        if isinstance(expr, Element):
            return self._element(expr)
        if isinstance(expr, Negative):
            return Negative(self._value(expr.value))
        if isinstance(expr, Binary):
            return Binary(expr.operator, self._value(expr.left), self._value(expr.right))
        if isinstance(expr, Call):
            values = tuple(self._value(a) for a in expr.arguments)
            if not any(map(self._is_vector, values)):
                return Call(expr.function, values)
            if expr.function not in VECTOR_OF:
                raise NotApplicableError(f"there is no {expr.function} on vectors")
            return Call(VECTOR_OF[expr.function], tuple(map(self._splat, values)))
        return expr

    def _element(self, element: Element) -> Expr:
        *outer, last = (coefficient(s, self._variable) for s in element.subscripts)
        if any(outer) or last not in (0, 1):
            raise NotApplicableError(f"{element.array} is not read along its last index")
        return Load(element.array, element.subscripts) if last else element
