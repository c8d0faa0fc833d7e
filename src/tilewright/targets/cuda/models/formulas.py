"""Formulas of a model: C expressions for values of single elements and of rows.

relu(x * 2 + bias)        Calculated("({0} > 0.0f ? {0} : 0.0f)", ...)
x / x.sum(1, True)        Calculated("({0} / {1})", x, Total("sum", x))
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from hashlib import sha256

Size = tuple[int, int]
"""An extent at the problem's own sizes, and at the sizes of the check on the CPU."""
Shape = tuple[Size, ...]
FLOAT, WHOLE = "float", "int64_t"
"""The types of elements in C. Whole numbers are only compared and counted, up to 2^24."""


class OtherError(Exception):
    """Why none of tilewright's kernels computes a model, as a clause."""


@dataclass(frozen=True)
class Element:
    """An element of an array for a position in the result: its index is (position / inner) % count.

    `inner` is the product of the extents after the array's own axes. `whole` says that the array
    has all axes. `kind` is the C type of the array's elements.
    """

    array: str
    shape: Shape
    inner: Shape = ()
    whole: bool = False
    kind: str = FLOAT


@dataclass(frozen=True)
class Number:
    """A constant, or the name of a kernel's variable, as C writes it."""

    text: str


@dataclass(frozen=True)
class Calculated:
    """An expression in which `{0}` stands for the first operand.

    Operands may be shared, so that a formula can stand for exponentially many operations when it is
    written out. Expressions are therefore compared, hashed and printed by a digest of fixed size.
    """

    text: str = field(compare=False)
    of: tuple[Formula, ...] = field(compare=False, repr=False)
    digest: str = field(init=False)
    is_of_a_row: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", sha256(repr((self.text, self.of)).encode()).hexdigest())
        object.__setattr__(self, "is_of_a_row", all(is_of_a_row(part) for part in self.of))


@dataclass(frozen=True)
class Total:
    """The sum (`sum`), the largest (`most`) or the smallest (`least`) element of a row."""

    kind: str
    of: Formula


Formula = Element | Number | Calculated | Total
PRODUCT = Number("value")
"""The element of the product, convolution or scan to which a formula is applied."""
COLUMNS = Number("columns")
COLUMN = Number("column")
"""The number of an element in its row."""


def operands(formula: Formula) -> tuple[Formula, ...]:
    """The formulas from whose values the value of a formula is computed."""
    match formula:
        case Calculated():
            return formula.of
        case Total():
            return (formula.of,)
        case _:
            return ()


def parts(formula: Formula, known: Container[Formula] = ()) -> Iterator[Formula]:
    """All formulas inside one, each once, operands first, without those inside known ones."""
    seen, waiting = set[Formula](), [(formula, False)]
    while waiting:
        one, complete = waiting.pop()
        if complete:
            yield one
        elif one not in seen and one not in known:
            seen.add(one)
            waiting.append((one, True))
            waiting += [(part, False) for part in reversed(operands(one))]


def is_of_a_row(formula: Formula) -> bool:
    """Whether the value is the same for all elements of a row."""
    match formula:
        case Element():
            return False
        case Calculated():
            return formula.is_of_a_row
        case _:
            return formula not in (PRODUCT, COLUMN)


@dataclass
class Written:
    """C statements that compute the values of formulas."""

    known: dict[Formula, str]
    lines: list[str]

    def value(self, formula: Formula) -> str:
        """The C expression for a formula, which is computed only once."""
        for part in parts(formula, self.known):
            match part:
                case Number():
                    continue
                case Calculated():
                    name = f"t{len(self.known)}"
                    value = part.text.format(*(self._name(one) for one in part.of))
                    self.lines.append(f"float {name} = {value};")
                    self.known[part] = name
                case Element() | Total():
                    raise OtherError("a value is used before it is computed")
        return self._name(formula)

    def _name(self, formula: Formula) -> str:
        return formula.text if isinstance(formula, Number) else self.known[formula]


_PLAIN = {
    "relu": "({0} > 0.0f ? {0} : 0.0f)", "neg": "(-{0})", "exp": "expf({0})", "log": "logf({0})",
    "sqrt": "sqrtf({0})", "rsqrt": "rsqrtf({0})", "abs": "fabsf({0})", "tanh": "tanhf({0})",
    "sin": "sinf({0})", "cos": "cosf({0})", "erf": "erff({0})", "reciprocal": "(1.0f / {0})",
    "sigmoid": "(1.0f / (1.0f + expf(-{0})))", "silu": "({0} / (1.0f + expf(-{0})))",
    "hardsigmoid": "(fminf(fmaxf({0} + 3.0f, 0.0f), 6.0f) / 6.0f)",
    "hardswish": "({0} * fminf(fmaxf({0} + 3.0f, 0.0f), 6.0f) / 6.0f)",
    "mish": "({0} * tanhf(fmaxf({0}, 0.0f) + log1pf(expf(-fabsf({0})))))",
    "square": "({0} * {0})", "clone": "{0}", "alias": "{0}", "detach": "{0}",
    "mul": "({0} * {1})", "div": "({0} / {1})", "maximum": "fmaxf({0}, {1})",
    "minimum": "fminf({0}, {1})", "relu6": "fminf(fmaxf({0}, 0.0f), 6.0f)",
    "floor": "floorf({0})", "ceil": "ceilf({0})", "round": "rintf({0})", "_to_copy": "{0}",
    "exp2": "exp2f({0})", "expm1": "expm1f({0})", "log2": "log2f({0})", "log1p": "log1pf({0})",
    "gt": "({0} > {1} ? 1.0f : 0.0f)", "ge": "({0} >= {1} ? 1.0f : 0.0f)",
    "lt": "({0} < {1} ? 1.0f : 0.0f)", "le": "({0} <= {1} ? 1.0f : 0.0f)",
    "eq": "({0} == {1} ? 1.0f : 0.0f)", "ne": "({0} != {1} ? 1.0f : 0.0f)",
    "differs": "fminf(fabsf({0} - {1}), 1.0f)",
    "sign": "({0} > 0.0f ? 1.0f : {0} < 0.0f ? -1.0f : 0.0f)",
    "where": "({0} != 0.0f ? {1} : {2})", "masked_fill": "({1} != 0.0f ? {2} : {0})",
    "logical_not": "({0} != 0.0f ? 0.0f : 1.0f)", "bitwise_not": "({0} != 0.0f ? 0.0f : 1.0f)",
    **dict.fromkeys(("logical_and", "bitwise_and"),
                    "({0} != 0.0f && {1} != 0.0f ? 1.0f : 0.0f)"),
    **dict.fromkeys(("logical_or", "bitwise_or"), "({0} != 0.0f || {1} != 0.0f ? 1.0f : 0.0f)"),
}  # fmt: skip
"""PyTorch's element-wise operations without settings. The truth values of a mask are 1 and 0.
`differs` is `ne` of whole numbers without a condition, because tests may contain only one case."""
_OF_TWO = {
    "add", "sub", "rsub", "mul", "div", "maximum", "minimum", "gt", "ge", "lt", "le", "eq", "ne",
    "logical_and", "logical_or", "bitwise_and", "bitwise_or", "differs",
}  # fmt: skip
_OF_THREE = {"where", "masked_fill"}


def operands_of(name: str) -> int:
    """The number of operands of an element-wise operation; its further arguments are settings."""
    return 3 if name in _OF_THREE else 2 if name in _OF_TWO else 1


def number(value: object) -> Number:
    """A constant of a model as a formula."""
    if isinstance(value, float) and math.isinf(value):
        return Number("INFINITY" if value > 0 else "(-INFINITY)")
    if isinstance(value, (bool, int, float)) and abs(value) < 1e38:
        return Number(f"{float(value)!r}f")
    raise OtherError(f"it computes with {str(value)[:40]}")


def calculated(name: str, of: tuple[Formula, ...], settings: list[object]) -> Calculated:
    """One of PyTorch's element-wise operations as a formula. Raises `OtherError` for others.

    `of` are the operands that are arrays or numbers, and `settings` the further numbers.
    """
    given = [*settings, *[None] * 3]

    def at(place: int, usual: float) -> str:
        value = usual if given[place] is None else given[place]
        return number(value).text

    if name in _PLAIN:
        return Calculated(_PLAIN[name], of)
    x, zero = "{0}", "0.0f"
    match name:
        case "add" | "sub" | "rsub":
            sign = "+" if name == "add" else "-"
            scaled = "{1}" if given[0] in (None, 1) else f"{at(0, 1)} * {{1}}"
            text = f"({x} {sign} {scaled})" if name != "rsub" else "({1} - {0})"
        case "gelu" if given[0] in (None, "none"):
            text = f"(0.5f * {x} * (1.0f + erff({x} * 0.70710678118654752f)))"
        case "gelu":
            inner = f"0.79788456080286536f * ({x} + 0.044715f * {x} * {x} * {x})"
            text = f"(0.5f * {x} * (1.0f + tanhf({inner})))"
        case "leaky_relu":
            text = f"({x} > {zero} ? {x} : {at(0, 0.01)} * {x})"
        case "elu":
            text = (f"{at(1, 1)} * ({x} > {zero} ? {x} : "
                    f"{at(0, 1)} * expm1f({x} * {at(2, 1)}))")  # fmt: skip
        case "softplus":
            beta = at(0, 1)
            text = (f"({x} * {beta} > {at(1, 20)} ? {x} : (fmaxf({x} * {beta}, {zero}) + "
                    f"log1pf(expf(-fabsf({x} * {beta})))) / {beta})")  # fmt: skip
        case "hardtanh":
            text = f"fminf(fmaxf({x}, {at(0, -1)}), {at(1, 1)})"
        case "clamp" | "clamp_min" | "clamp_max":
            low, high = (None, given[0]) if name == "clamp_max" else (given[0], given[1])
            text = x if low is None else f"fmaxf({x}, {number(low).text})"
            text = text if high is None else f"fminf({text}, {number(high).text})"
        case "pow" if given[0] in (2, 3, 0.5, -1, -0.5):
            text = {2: f"({x} * {x})", 3: f"({x} * {x} * {x})", 0.5: f"sqrtf({x})",
                    -1: f"(1.0f / {x})", -0.5: f"rsqrtf({x})"}[float(str(given[0]))]  # fmt: skip
        case _:
            raise OtherError(f"it computes {name}, which tilewright's own kernels do not support")
    return Calculated(text, of)
