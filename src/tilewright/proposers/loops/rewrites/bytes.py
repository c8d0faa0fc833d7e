"""Sum products of 8-bit numbers as unsigned by signed bytes, for which processors have an
instruction that adds four of them at once.

Before::

    for (int i = 0; i < 32; i++)
      for (int j = 0; j < 48; j++) {
        int sum = 0;
        for (int k = 0; k < 64; k++) sum = sum + a[i][k] * (w[j][k] - 3);
        out[i][j] = sum;
      }

After, where a and w hold int8_t::

    static _Alignas(64) uint8_t a_1[32][64];
    static _Alignas(64) int32_t sums_1[32], sums_2[48];
    for (int i = 0; i < 32; i++)
      for (int k = 0; k < 64; k++) a_1[i][k] = a[i][k] + 128;
    .. loops that set sums_1[i] to the sum of a_1[i], and sums_2[j] to that of w[j] ..
    for (int i = 0; i < 32; i++)
      for (int j = 0; j < 48; j++) {
        int sum = 0;
        int32_t dot_1 = 0;
        for (int k = 0; k < 64; k++) dot_1 = dot_1 + a_1[i][k] * w[j][k];
        sum = sum + (dot_1 - 3 * sums_1[i] - 128 * sums_2[j] + 24576);
        out[i][j] = sum;
      }

A factor of which no element is read twice is not copied, but converted where it is used:

        for (int k = 0; k < 64; k++) dot_1 = dot_1 + (uint8_t)(w[j][k] + 128) * a[k];

The constants by which the factors differ from bytes are multiplied out: (u + c)(v + d) = uv + du +
cv + cd. Compilers recognise the instruction only in sums of this form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    array_types,
    coefficient,
    fresh,
    names_in,
    visible_types,
)
from tilewright.proposers.loops.c_types import RANGES
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Cast,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Negative,
    Number,
    Parameter,
    Statement,
    Type,
    Var,
    around,
    changed,
    loops,
    statements,
    walk,
    with_loop,
)
from tilewright.proposers.loops.parsing.arithmetic import fits

_SIGNED = ("int", "int32_t", "int64_t", "int16_t")
_LEAST: dict[str, int] = {"uint8_t": 0, "int8_t": -128}
_LARGEST = (1 << 31) - 1
_MOST_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class _Factor:
    """An element of an 8-bit input plus a number."""

    element: Element
    type: Type
    added: int

    def as_bytes(self, wanted: Type) -> int:
        """The number that has to be subtracted from elements so that they fit the required type."""
        return _LEAST[self.type] - _LEAST[wanted]

    def beside(self, wanted: Type) -> int:
        """The number that is added to the byte."""
        return self.added + self.as_bytes(wanted)


def unsigned_by_signed(kernel: Kernel, number: int) -> Kernel:
    """The kernel in which the innermost loop `number` sums unsigned by signed bytes.

    Raises `NotApplicableError`.
    """
    path = around(kernel, number)
    loop = path[-1]
    total, factors = _product(loop, kernel, number)
    factors.sort(key=lambda factor: (factor.type != "uint8_t", not _is_read_once(factor, path)))
    kinds: tuple[Type, Type] = ("uint8_t", "int8_t")
    first, second = (f.beside(kind) for f, kind in zip(factors, kinds, strict=True))
    most = loop.trips * (255 * 128 + 255 * abs(second) + 128 * abs(first) + abs(first * second))
    if most > _LARGEST or loop.first or loop.step != 1:
        raise NotApplicableError("the sums may be too large, or the loop does not begin at 0")
    as_they_are = tuple(f.type for f in factors) == kinds and not first | second
    if as_they_are and all(_is_along(f.element, loop) for f in factors):
        raise NotApplicableError("the products are already those of unsigned and signed bytes")
    taken = names_in(kernel)
    made = _Copies(kernel, path, taken)
    bytes_of = [made.bytes_of(f, kind) for f, kind in zip(factors, kinds, strict=True)]
    multiplied: list[Expr] = [*bytes_of]
    if _is_read_once(factors[0], path) and factors[0].type != "uint8_t" and not second:
        made = _Copies(kernel, path, taken)  # a copy would be read as seldom
        element = factors[0].element
        shifted = Binary("+", element, Number(str(-factors[0].as_bytes("uint8_t"))))
        bytes_of = [element, made.bytes_of(factors[1], "int8_t")]
        multiplied = [Cast("uint8_t", shifted), bytes_of[1]]
    dot = Var(fresh("dot", taken))
    summed: Expr = dot
    for element, beside in zip(bytes_of, (second, first), strict=True):
        if beside:
            term = Binary("*", Number(str(abs(beside))), made.sum_of(element))
            summed = Binary("+" if beside > 0 else "-", summed, term)
    constant = loop.trips * first * second
    if constant:
        summed = Binary("+" if constant > 0 else "-", summed, Number(str(abs(constant))))
    adding = Assign(dot, Binary("+", dot, Binary("*", *multiplied)))
    new: tuple[Statement, ...] = (
        Declare("int32_t", dot.name, (), Number("0")),
        replace(loop, body=(adding,)),
        Assign(total, Binary("+", total, summed)),
    )
    changed_kernel = with_loop(kernel, number, new)
    return replace(
        changed_kernel,
        body=(*made.filling, *changed_kernel.body),
        scratch=(*kernel.scratch, *made.arrays),
    )


def sums_bytes(kernel: Kernel, number: int) -> bool:
    """Whether the innermost loop `number` only sums products of unsigned and signed bytes."""
    loop = loops(kernel)[number]
    if len(loop.body) != 1 or not isinstance(loop.body[0], Assign):
        return False
    product = loop.body[0].value
    while isinstance(product, Binary) and product.operator == "+":
        product = product.right
    if not isinstance(product, Binary) or product.operator != "*":
        return False
    types, kinds = array_types(kernel), []
    for factor in (product.left, product.right):
        kind: Type | None = None
        if isinstance(factor, Cast) and isinstance(factor.value, Binary):
            kind, factor = factor.type, factor.value.left
        if isinstance(factor, Element) and _is_along(factor, loop):
            kinds.append(kind or types.get(factor.array, "int"))
    return sorted(kinds) == ["int8_t", "uint8_t"]


def _is_read_once(factor: _Factor, path: list[For]) -> bool:
    """Whether the loops read each element of a factor along its rows, and no element twice."""
    used = {e.name for s in factor.element.subscripts for e in walk(s) if isinstance(e, Var)}
    return {o.variable for o in path} <= used and _is_along(factor.element, path[-1])


def _product(loop: For, kernel: Kernel, number: int) -> tuple[Var, list[_Factor]]:
    """The variable to which an innermost loop adds products, and their two factors."""
    if not loop.body:
        raise NotApplicableError("the loop has no body")
    *declared, last = loop.body
    named: dict[str, Declare] = {}
    types = {p.name: p.type for p in kernel.parameters if p.constant and p.type in _LEAST}
    for s in declared:
        if not isinstance(s, Declare) or s.sizes or s.value is None or s.type not in _SIGNED:
            raise NotApplicableError("the loop does more than sum products")
        named[s.name] = s
    value = last.value if isinstance(last, Assign) else None
    total = last.target if isinstance(last, Assign) else None
    if not isinstance(value, Binary) or not isinstance(total, Var) or value.operator != "+":
        raise NotApplicableError("the loop does more than sum products")
    product = value.right if value.left == total else value.left
    if total not in (value.left, value.right) or total.name in named:
        raise NotApplicableError("the loop does more than sum products")
    if visible_types(kernel, number).get(total.name) not in ("int", "int32_t"):
        raise NotApplicableError("the sum is not an integer of 32 bits")
    if not isinstance(product, Binary) or product.operator != "*":
        raise NotApplicableError("the loop does not sum products of two factors")
    return total, [_factor(side, named, types) for side in (product.left, product.right)]


def _factor(side: Expr, named: dict[str, Declare], types: dict[str, Type]) -> _Factor:
    """An element of an input of 8-bit numbers, to which numbers may be added."""
    if isinstance(side, Var) and side.name in named:
        variable = named[side.name]
        assert variable.value is not None
        return _converted(_factor(variable.value, named, types), variable.type)
    if isinstance(side, Cast) and side.type in _SIGNED:
        return _converted(_factor(side.value, named, types), side.type)
    if isinstance(side, Binary) and side.operator in ("+", "-"):
        for sum_of, number in ((side.left, side.right), (side.right, side.left)):
            added = _constant(number)
            if added is not None and (side.operator == "+" or sum_of is side.left):
                factor = _factor(sum_of, named, types)
                by = added if side.operator == "+" else -added
                return _converted(replace(factor, added=factor.added + by), "int")
    if not isinstance(side, Element) or side.array not in types:
        raise NotApplicableError("a factor is not an element of an 8-bit input plus a number")
    return _Factor(side, types[side.array], 0)


def _converted(factor: _Factor, kind: Type) -> _Factor:
    """The factor after a conversion, if that does not change any of its values."""
    least, most = RANGES[factor.type]
    if not fits((least + factor.added, most + factor.added), kind):
        raise NotApplicableError("the conversion of a factor may change its value")
    return factor


def _constant(expr: Expr) -> int | None:
    """The value of an integer, which may be converted to a type that can represent it."""
    if isinstance(expr, Cast) and expr.type in _SIGNED:
        value = _constant(expr.value)
        return value if value is not None and fits((value, value), expr.type) else None
    if isinstance(expr, Negative):
        value = _constant(expr.value)
        return None if value is None else -value
    return int(expr.text) if isinstance(expr, Number) and expr.text.isdigit() else None


def _is_along(element: Element, loop: For) -> bool:
    """Whether a loop reads an array along its last index."""
    *outer, last = (coefficient(s, loop.variable) for s in element.subscripts)
    return not any(outer) and last == 1


class _Copies:
    """Makes copies of inputs as bytes, and their sums, with the statements that fill them."""

    def __init__(self, kernel: Kernel, path: list[For], taken: set[str]) -> None:
        self._path = path
        self._kernel = kernel
        self._taken = taken
        self.arrays: list[Parameter] = []
        self.filling: list[Statement] = []

    def bytes_of(self, factor: _Factor, wanted: Type) -> Element:
        """The element of an array of the required type that replaces a factor's element."""
        element, loop = factor.element, self._path[-1]
        if factor.type == wanted and _is_along(element, loop):
            return element
        outer = self._outer(element)
        array = fresh(element.array, self._taken)
        subtracted = factor.as_bytes(wanted)
        value: Expr = element
        if subtracted:
            sign = "-" if subtracted > 0 else "+"
            value = Binary(sign, element, Number(str(abs(subtracted))))
        target = Element(array, (*map(_from_zero, outer), Var(loop.variable)))
        sizes = (*(o.trips for o in outer), loop.trips)
        self._add(Parameter(array, sizes, False, wanted))
        self.filling.append(self._over((*outer, loop), (Assign(target, value),)))
        return target

    def sum_of(self, element: Element) -> Element:
        """The element of an array that contains the sum over the innermost loop."""
        outer, loop = self._outer(element), self._path[-1]
        array = fresh("sums", self._taken)
        total = Var(fresh("sum", self._taken))
        within: tuple[Statement, ...] = (
            Declare("int32_t", total.name, (), Number("0")),
            replace(loop, body=(Assign(total, Binary("+", total, element)),)),
        )
        target = Element(array, tuple(map(_from_zero, outer)) or (Number("0"),))
        sizes = tuple(o.trips for o in outer) or (1,)
        self._add(Parameter(array, sizes, False, "int32_t"))
        body = (*within, Assign(target, total))
        self.filling += [self._over(outer, body)] if outer else body
        return target

    def _add(self, array: Parameter) -> None:
        self.arrays.append(array)
        if math.prod(array.sizes) > _MOST_BYTES:
            raise NotApplicableError(f"a copy of {array.name} would be too large")

    def _outer(self, element: Element) -> tuple[For, ...]:
        """The loops, except the innermost one, on which the place of an element depends."""
        used = {e.name for s in element.subscripts for e in walk(s) if isinstance(e, Var)}
        found = tuple(o for o in self._path[:-1] if o.variable in used)
        inner = [e for s in element.subscripts for e in walk(s)]
        if used - {o.variable for o in self._path} or any(isinstance(e, Element) for e in inner):
            raise NotApplicableError(
                "the index of an element depends on more than the variables of loops"
            )
        if any(o.threads > 1 for o in self._path):
            raise NotApplicableError("the loop is shared among threads")
        return found

    def _over(self, outer: tuple[For, ...], body: tuple[Statement, ...]) -> For:
        """Loops around statements, with variables of their own."""
        names = {o.variable: Var(fresh("at", self._taken)) for o in outer}
        inner = [s for s in statements(body) if isinstance(s, For)]
        names |= {o.variable: Var(fresh("at", self._taken)) for o in inner}

        def renamed(statement: Statement) -> Statement:
            if isinstance(statement, For):
                name = names[statement.variable].name
                return replace(statement, variable=name, body=tuple(map(renamed, statement.body)))
            if isinstance(statement, Declare):
                return statement
            assert isinstance(statement, Assign)
            target = changed(statement.target, other)
            assert isinstance(target, (Var, Element))
            return Assign(target, changed(statement.value, other))

        def other(expr: Expr) -> Expr:
            return names.get(expr.name, expr) if isinstance(expr, Var) else expr

        made = tuple(map(renamed, body))
        for loop in reversed(outer):
            made = (replace(loop, variable=names[loop.variable].name, body=made, threads=1),)
        found = made[0]
        assert isinstance(found, For)
        return found


def _from_zero(loop: For) -> Expr:
    """The number of an iteration, counted from 0."""
    if loop.step != 1:
        raise NotApplicableError("the step of a loop is not 1")
    variable = Var(loop.variable)
    return Binary("-", variable, Number(str(loop.first))) if loop.first else variable
