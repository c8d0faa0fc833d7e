"""Converts statements of one iteration to statements on vectors, for values that can be computed
for all lanes.

Before::

    Y[i] = X[i] < 0.0f ? 0.1f * X[i] : X[i];

After (i is the variable of the loop)::

    *(vf *)&Y[i] = v_select(v_less(x, v_splat(0.0f)), 0.1f * x, x);    with x = *(const vf *)&X[i]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from tilewright.proposers.loops.analysis.changes import NotApplicableError, array_types, coefficient
from tilewright.proposers.loops.analysis.independence import is_inside
from tilewright.proposers.loops.c_types import is_whole
from tilewright.proposers.loops.functions import COMPARED, CONVERTED, MASKS, VECTOR_OF, type_of_call
from tilewright.proposers.loops.ir import (
    INFINITY,
    Assign,
    Binary,
    Call,
    Cast,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Negative,
    Number,
    Select,
    Statement,
    Type,
    Var,
    parts,
    statements,
    walk,
)
from tilewright.proposers.loops.rewrites.exact_integers import WholeNumbers

RUNNING = ("v_running", "v_running_most", "v_running_least")
"""Functions that combine each lane with all earlier ones."""
_WIDE = ("int", "int32_t", "int64_t")
"""Types that can represent every 32-bit integer."""


class Converter:
    """Converts statements of one iteration to those of `lanes` iterations.

    `loops` are the loop and its enclosing loops, `types` the types of visible variables and of its
    own, and `vectors` the names of variables that are vectors.
    """

    def __init__(
        self, kernel: Kernel, loops: Sequence[For], types: Mapping[str, Type], vectors: set[str]
    ) -> None:
        self._kernel = kernel
        self._loops = loops
        self._variable = loops[0].variable
        self._types = types
        self._arrays = array_types(kernel)
        for statement in statements(kernel.body):
            if isinstance(statement, Declare) and statement.sizes:
                self._arrays[statement.name] = statement.type
        self._vectors = vectors
        self._whole = WholeNumbers(loops, types, self._arrays)
        self._assigned = {s.target for s in statements(loops[0].body) if isinstance(s, Assign)}
        self._masks: set[str] = set()
        self._always = {*unconditional(loops[0].body)}

    def converted(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """The statements, after it was determined which variables are vectors."""
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
        target = statement.target
        if isinstance(target, Var):
            value = self._float(statement.value)
            if not self._is_vector(value) and target.name in self._whole.ranges:
                self._require_one(statement.value)
            if self._is_vector(value):
                kind = self._types.get(target.name, "int")
                if self._is_mask(value):
                    raise NotApplicableError(f"{target.name} is not a float")
                if kind not in ("float", "vector"):
                    value = self._as_whole(statement.value, value, kind, target.name)
                self._vectors.add(target.name)
            wanted = target.name in self._vectors
            return Assign(target, self._splat(value) if wanted else value)
        assert isinstance(target, Element)
        place = self._element(target, large=True)
        if not isinstance(place, Load):
            raise NotApplicableError(f"all iterations write the same element of {target.array}")
        if place.type != "float":
            value = self._stored(statement.value, place.type)
        else:
            value = self._float(statement.value)
        if self._is_mask(value):
            raise NotApplicableError("the result of a comparison is stored as a number")
        return Assign(place, self._splat(value))

    def _stored(self, expr: Expr, kind: Type) -> Expr:
        """A vector that is stored as integers, which discards fractions and keeps the lowest
        bits."""
        while isinstance(expr, Cast) and is_whole(expr.type):
            if self._whole.is_whole(expr.value) and expr.type not in (kind, *_WIDE):
                break
            expr = expr.value
        if self._whole.is_double(expr):
            raise NotApplicableError(f"numbers of double precision are converted to {kind}")
        if not self._whole.has_floats(expr):
            raise NotApplicableError("the compiler vectorises integers itself")
        value = self._value(expr)
        if not self._is_vector(value) and self._whole.is_whole(expr):
            raise NotApplicableError("one integer is stored for all lanes")
        return value

    def _as_whole(self, expr: Expr, value: Expr, kind: Type, name: str = "") -> Expr:
        """A vector as integers of a type. `expr` is the expression from which it was made.

        `name` is the variable to which it is assigned.
        """
        known = self._whole.range_of(expr) if self._whole.is_whole(expr) else None
        self._whole.ranges[name] = None if Var(name) in self._assigned else known
        if self._whole.has_floats(expr):
            self._whole.cut.add(name)
        if self._whole.is_whole(expr):
            if kind not in _WIDE and not self._whole.fits(expr, kind):
                raise NotApplicableError(f"an integer may not fit the type {kind}")
            return value
        if not is_whole(kind) or kind == "_Bool" or self._whole.is_double(expr):
            raise NotApplicableError(f"vectors are not converted to {kind}")
        return Call("v_trunc", (value,))

    def _declaration(self, statement: Declare) -> Statement:
        value = None if statement.value is None else self._float(statement.value)
        if statement.type != "float" and statement.value is not None:
            value = self._value(statement.value)
        if value is not None and self._is_vector(value):
            if self._is_mask(value):
                if statement.type not in ("int", "_Bool"):
                    raise NotApplicableError(f"{statement.name} is not a float")
            elif statement.type != "float":
                assert statement.value is not None
                value = self._as_whole(statement.value, value, statement.type, statement.name)
            self._vectors.add(statement.name)
        elif statement.value is not None and statement.name in self._whole.ranges:
            self._require_one(statement.value)
        if value is not None and self._is_vector(value) and self._is_mask(value):
            self._masks.add(statement.name)
        if statement.name not in self._vectors:
            return statement
        return replace(
            statement, type="vector", value=None if value is None else self._splat(value)
        )

    def _splat(self, value: Expr) -> Expr:
        return value if self._is_vector(value) else Call("v_splat", (value,))

    def _is_vector(self, value: Expr) -> bool:
        return any(
            isinstance(e, Load)
            or (isinstance(e, Var) and e.name in self._vectors)
            or (isinstance(e, Call) and e.function in RUNNING)
            for e in walk(value)
        )

    def _is_mask(self, value: Expr) -> bool:
        """Whether the lanes of a vector are results of a comparison."""
        if isinstance(value, Var):
            return value.name in self._masks
        return isinstance(value, Call) and value.function in MASKS

    def _value(self, expr: Expr) -> Expr:
        if expr == Var(self._variable):
            raise NotApplicableError("the loop's variable is used as a number")
        if isinstance(expr, Element):
            return self._element(expr)
        if isinstance(expr, Negative):
            return self._number(Negative(self._value(expr.value)))
        if isinstance(expr, Binary):
            return self._binary(expr)
        if isinstance(expr, Select):
            return self._select(expr)
        if isinstance(expr, Cast):
            value = self._float(expr.value) if expr.type == "float" else self._value(expr.value)
            if not self._is_vector(value):
                return Cast(expr.type, value)
            if self._is_mask(value):
                raise NotApplicableError(f"vectors are not converted to {expr.type}")
            return value if expr.type == "float" else self._as_whole(expr.value, value, expr.type)
        if isinstance(expr, Call):
            values = tuple(self._value(a) for a in expr.arguments)
            if expr.function in (*RUNNING, "v_before", "v_ends"):
                return Call(expr.function, tuple(map(self._splat, values)))
            if not any(map(self._is_vector, values)):
                return Call(expr.function, values)
            power = _power(expr) if not any(map(self._is_mask, values)) else 0
            if power:
                return reduce(lambda a, b: Binary("*", a, b), [values[0]] * power)
            if expr.function not in VECTOR_OF or any(map(self._is_mask, values)):
                raise NotApplicableError(f"{expr.function} is not available for vectors")
            return Call(VECTOR_OF[expr.function], tuple(map(self._splat, values)))
        return expr

    def _number(self, expr: Expr) -> Expr:
        """An expression on vectors of numbers, which excludes results of comparisons."""
        if any(map(self._is_mask, parts(expr))):
            raise NotApplicableError("the result of a comparison is used as a number")
        return expr

    def _binary(self, expr: Binary) -> Expr:
        whole = self._whole.is_whole(expr.left), self._whole.is_whole(expr.right)
        left = self._value(expr.left) if whole[1] else self._float(expr.left)
        right = self._value(expr.right) if whole[0] else self._float(expr.right)
        if not self._is_vector(left) and not self._is_vector(right):
            return Binary(expr.operator, left, right)
        if all(whole) and not self._is_mask(left) and not self._is_mask(right):
            self._require_exact(expr)
        if expr.operator in "+-*/":
            return self._number(Binary(expr.operator, self._beside(left), self._beside(right)))
        if expr.operator in ("&&", "||") and self._is_mask(left) and self._is_mask(right):
            return Call("v_and" if expr.operator == "&&" else "v_or", (left, right))
        if expr.operator == "==" and self._is_mask(left) and right == Number("0"):
            return Call("v_not", (left,))
        if expr.operator not in COMPARED:
            raise NotApplicableError(f"{expr.operator} is not available for vectors")
        function, exchanged = COMPARED[expr.operator]
        sides = (self._splat(left), self._splat(right))
        return self._number(Call(function, sides[::-1] if exchanged else sides))

    def _require_exact(self, expr: Binary) -> None:
        """Raise if an integer operation may have another result on floats."""
        if self._whole.wraps(expr):
            raise NotApplicableError("unsigned integers of 32 bits or more may wrap around")
        if expr.operator in "+-*":
            exact = self._whole.is_exact(expr)
        else:  # the remaining bits are exact, whatever the size
            sides = (expr.left, expr.right)
            exact = expr.operator in COMPARED and all(
                self._is_vector(self._value(s)) or self._whole.is_exact(s) for s in sides
            )
        if not exact:
            raise NotApplicableError("integers may be too large for floats")

    def _require_one(self, expr: Expr) -> None:
        """Raise if an integer that is used for all lanes may be too large for a float."""
        if not self._whole.is_exact(expr) or self._whole.wraps(expr):
            raise NotApplicableError("integers may be too large for floats")

    def _float(self, expr: Expr) -> Expr:
        """A value after conversion to a float. 32-bit integers are rounded, as in C."""
        if isinstance(expr, Element):
            return self._element(expr, large=True)
        if isinstance(expr, Select):
            return self._select(expr, large=True)
        return self._value(expr)

    def _beside(self, operand: Expr) -> Expr:
        """An operand of vector arithmetic, which must be a vector or a float."""
        if self._is_vector(operand) or self.is_float(operand):
            return operand
        if isinstance(operand, Number):
            return Number(f"{operand.text}.0f" if operand.text.isdigit() else f"{operand.text}f")
        return Call("v_splat", (operand,))

    def is_float(self, scalar: Expr) -> bool:
        """Whether a value that is the same for all lanes is known to be a float."""
        if isinstance(scalar, Number):
            return scalar == INFINITY or scalar.text.endswith(("f", "F"))
        if isinstance(scalar, Var):
            return self._types.get(scalar.name) == "float"
        if isinstance(scalar, Element):
            return self._arrays.get(scalar.array) == "float"
        if isinstance(scalar, Call):
            return type_of_call(scalar.function) == "float"
        if isinstance(scalar, Cast):
            return scalar.type == "float"
        arithmetic = isinstance(scalar, Binary) and scalar.operator in "+-*/"
        return (arithmetic or isinstance(scalar, Negative)) and all(
            map(self.is_float, parts(scalar))
        )

    def _select(self, expr: Select, *, large: bool = False) -> Expr:
        if self._whole.is_whole(expr) and not large:
            for side in (expr.value, expr.other):
                if not self._is_vector(self._value(side)):
                    self._require_one(side)
        function = _larger_or_smaller(expr)
        if function is not None:
            sides = tuple(map(self._value, (expr.value, expr.other)))
            if any(map(self._is_vector, sides)) and not any(map(self._is_mask, sides)):
                return Call(function, tuple(map(self._splat, sides)))
        condition = self._value(expr.condition)
        value, other = self._value(expr.value), self._value(expr.other)
        if not any(map(self._is_vector, (condition, value, other))):
            return Select(condition, value, other)
        if self._is_mask(value) or self._is_mask(other):
            raise NotApplicableError("the result of a comparison is chosen by a condition")
        value, other = self._splat(value), self._splat(other)
        if not self._is_vector(condition):
            return Select(condition, _as_vector(value), _as_vector(other))
        if not self._is_mask(condition):
            condition = Call("v_differ", (condition, Call("v_splat", (Number("0.0f"),))))
        for part in (*walk(expr.value), *walk(expr.other)):
            self._require_harmless(part)
        return Call("v_select", (condition, value, other))

    def _require_harmless(self, expr: Expr) -> None:
        """Raise if computing an expression that is not chosen could end the kernel."""
        if isinstance(expr, Element) and expr not in self._always:
            if not is_inside(expr, self._loops, self._kernel):
                what = f"{expr.array} may be read outside its sizes where the condition fails"
                raise NotApplicableError(what)
        elif isinstance(expr, Binary) and expr.operator in "/%":
            quotient = self._value(expr)
            if not self._is_vector(quotient) and not self.is_float(quotient):
                raise NotApplicableError("integers are divided under a condition")

    def _element(self, element: Element, *, large: bool = False) -> Expr:
        *outer, last = (coefficient(s, self._variable) for s in element.subscripts)
        places = (e for s in element.subscripts for e in walk(s))
        if any(isinstance(e, Var) and e.name in self._vectors for e in places):
            raise NotApplicableError(
                f"the lanes read elements of {element.array} at data-dependent places"
            )
        if any(outer) or last not in (0, 1):
            raise NotApplicableError(f"{element.array} is not read along its last index")
        if not last:
            return element
        kind = self._arrays[element.array]
        if kind != "float" and kind not in CONVERTED:
            raise NotApplicableError(f"{element.array} is not an array of floats")
        if kind in ("int", "int32_t") and not large:
            raise NotApplicableError(f"numbers of {element.array} may be too large for floats")
        return Load(element.array, element.subscripts, kind)


_POWERS = {"2": 2, "3": 3, "4": 4}


def _power(call: Call) -> int:
    """Number of factors in a product that equals a call of `powf`, or 0."""
    if call.function not in ("pow", "powf"):
        return 0
    exponent = call.arguments[1]
    text = exponent.text.rstrip("fF") if isinstance(exponent, Number) else ""
    return _POWERS.get(text.removesuffix("0").removesuffix("."), 0)


def _as_vector(side: Expr) -> Expr:
    """One side of a choice converted to the vector type, because C requires both sides to have the
    same type.

    Arithmetic loses the alignment attribute of the type.
    """
    return Call("v_same", (side,)) if isinstance(side, (Binary, Negative)) else side


def _larger_or_smaller(expr: Select) -> str | None:
    """The vector function that equals `a > b ? a : b` or `a < b ? a : b`."""
    test, sides = expr.condition, (expr.value, expr.other)
    if not isinstance(test, Binary) or test.operator not in ("<", ">"):
        return None
    if sides not in ((test.left, test.right), (test.right, test.left)):
        return None
    return "v_max" if (test.operator == ">") == (sides[0] == test.left) else "v_min"


def unconditional(body: tuple[Statement, ...]) -> Iterator[Expr]:
    """Parts that each iteration always computes. An inner loop may have no iterations."""
    for statement in body:
        if isinstance(statement, (Declare, Assign)) and statement.value is not None:
            yield from _computed(statement.value)


def _computed(expr: Expr) -> Iterator[Expr]:
    yield expr
    if isinstance(expr, Select):
        yield from _computed(expr.condition)
    elif isinstance(expr, Binary) and expr.operator in ("&&", "||"):
        yield from _computed(expr.left)
    else:
        for part in parts(expr):
            yield from _computed(part)
