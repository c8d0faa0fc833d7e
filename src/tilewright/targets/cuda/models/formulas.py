"""Formulas of a model: C expressions for values of single elements and of rows.

relu(x * 2 + bias)        Calculated("({0} > 0.0f ? {0} : 0.0f)", ...)
x / x.sum(1, True)        Calculated("({0} / {1})", x, Total("sum", x))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from tilewright.targets.cuda.models.places import (
    Element,
    Index,
    Inside,
    OtherError,
    Size,
    at,
    moved,
    within,
)


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


@dataclass(frozen=True)
class Folded:
    """The sum (`sum`) or the largest (`most`) of the values that a thread computes in nested loops.

    `loops` are the loops' variables, which indices contain, and their numbers of iterations.
    """

    kind: str
    loops: tuple[tuple[str, Size], ...]
    of: Formula


@dataclass(frozen=True)
class OfSize:
    """A power of a number that follows from the model's sizes, such as the number of columns."""

    size: Size
    power: float


@dataclass(frozen=True)
class Position:
    """The value of an index as a float, such as an element of `torch.arange`. It may be
    negative."""

    index: Index


Formula = Element | Inside | Number | OfSize | Position | Calculated | Total | Folded
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
        case Total() | Folded():
            return (formula.of,)
        case _:
            return ()


def parts(
    formula: Formula, known: Container[Formula] = (), in_loops: bool = True
) -> Iterator[Formula]:
    """All formulas inside one, each once, operands first, without those inside known ones.

    Without `in_loops`, also without those that are computed in loops of their own.
    """
    seen, waiting = set[Formula](), [(formula, False)]
    while waiting:
        one, complete = waiting.pop()
        if complete:
            yield one
        elif one not in seen and one not in known:
            seen.add(one)
            waiting.append((one, True))
            if in_loops or not isinstance(one, Folded):
                waiting += [(part, False) for part in reversed(operands(one))]


def is_of_a_row(formula: Formula) -> bool:
    """Whether the value is the same for all elements of a row."""
    match formula:
        case Element() | Inside() | Position() | Folded():
            return False
        case Calculated():
            return formula.is_of_a_row
        case _:
            return formula not in (PRODUCT, COLUMN)


def is_simple(formula: Formula) -> bool:
    """Whether a formula can be computed for any element: it contains no rows, no loops and no
    element of a product."""
    return not any(isinstance(p, Total | Folded) or p in (PRODUCT, COLUMN) for p in parts(formula))


def remapped(formula: Formula, to: Index, size: Size) -> Formula:
    """A simple formula in which the computed place, which is less than `size`, is an index.

    Raises `OtherError` for other formulas.
    """
    if not is_simple(formula):
        raise OtherError("it takes parts of what it has computed, or orders them differently")
    made = dict[Formula, Formula]()
    for part in parts(formula):
        match part:
            case Element():
                made[part] = moved(part, to, size)
            case Inside():
                made[part] = within(part, to, size)
            case Position():
                made[part] = Position(at(part.index, to, size))
            case Calculated():
                made[part] = Calculated(part.text, tuple(made[one] for one in part.of))
            case _:
                made[part] = part
    return made[formula]


def with_product(formula: Formula, product: Element) -> Formula:
    """A formula that reads the element of the product from an array."""
    made: dict[Formula, Formula] = {PRODUCT: product}
    for part in parts(formula):
        if isinstance(part, Calculated):
            made[part] = Calculated(part.text, tuple(made[one] for one in part.of))
        else:
            made.setdefault(part, part)
    return made[formula]


STARTS = {"sum": "0.0f", "most": "(-INFINITY)", "least": "INFINITY"}
"""The first values of totals by kind."""
_JOINED = {"sum": "{0} += {1};", "most": "{0} = fmaxf({0}, {1});"}


@dataclass
class Written:
    """C statements that compute the values of formulas.

    `leaf` gives the expression for what is neither computed from other formulas nor known, and
    `whole` that for an integer.
    """

    known: dict[Formula, str]
    lines: list[str]
    leaf: Callable[[Element | Inside | OfSize | Position], str]
    whole: Callable[[Size], str]

    def value(self, formula: Formula) -> str:
        """The C expression for a formula, which is computed only once."""
        for part in parts(formula, self.known, in_loops=False):
            match part:
                case Number():
                    continue
                case Folded():
                    self.known[part] = self._folded(part)
                case Calculated():
                    name = f"t{len(self.known)}"
                    value = part.text.format(*(self._name(one) for one in part.of))
                    self.lines.append(f"float {name} = {value};")
                    self.known[part] = name
                case Element() | Inside() | OfSize() | Position():
                    self.known[part] = self.leaf(part)
                case Total():
                    raise OtherError("a value is used before it is computed")
        return self._name(formula)

    def _folded(self, folded: Folded) -> str:
        name = f"t{len(self.known)}"
        inner = Written({**self.known, folded: name}, [], self.leaf, self.whole)
        value = inner.value(folded.of)
        self.lines.append(f"float {name} = {STARTS[folded.kind]};")
        for variable, extent in folded.loops:
            head = f"for (unsigned {variable} = 0; {variable} < {self.whole(extent)}; {variable}++)"
            self.lines.append(head)
        self.lines[-1] += " {"
        joined = _JOINED[folded.kind].format(name, value)
        self.lines += [*(f"  {line}" for line in [*inner.lines, joined]), "}"]
        return name

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
    "xlogy": "({0} == 0.0f ? 0.0f : {0} * logf({1}))",
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
`differs` is `ne` of integers without a condition, because tests may contain only one case."""
_OF_TWO = {
    "add", "sub", "rsub", "mul", "div", "maximum", "minimum", "gt", "ge", "lt", "le", "eq", "ne",
    "xlogy", "logical_and", "logical_or", "bitwise_and", "bitwise_or", "differs",
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


def of_sizes(full: object, reduced: object) -> OfSize:
    """A constant that is a power of a size, such as 1 / sqrt(width), at both sizes."""
    for power in (1.0, -1.0, 0.5, -0.5):
        try:
            exact = [float(str(value)) ** (1 / power) for value in (full, reduced)]
        except (ValueError, ZeroDivisionError, OverflowError):
            continue
        size = tuple(round(value) for value in exact)
        near = all(abs(e - s) <= 1e-9 * abs(e) for e, s in zip(exact, size, strict=True))
        if near and 0 < min(size) <= max(size) < 1 << 24:
            return OfSize((size[0], size[1]), power)
    raise OtherError("it computes with numbers that follow from its sizes")


def calculated(name: str, of: tuple[Formula, ...], settings: list[object]) -> Calculated:
    """One of PyTorch's element-wise operations as a formula. Raises `OtherError` for others.

    `of` are the operands that are arrays or numbers, and `settings` the further numbers.
    """
    given = [*settings, *[None] * 3]

    def setting(place: int, usual: float) -> str:
        value = usual if given[place] is None else given[place]
        return number(value).text

    if name in _PLAIN:
        return Calculated(_PLAIN[name], of)
    x, zero = "{0}", "0.0f"
    match name:
        case "add" | "sub" | "rsub":
            sign = "+" if name == "add" else "-"
            scaled = "{1}" if given[0] in (None, 1) else f"{setting(0, 1)} * {{1}}"
            text = f"({x} {sign} {scaled})" if name != "rsub" else "({1} - {0})"
        case "gelu" if given[0] in (None, "none"):
            text = f"(0.5f * {x} * (1.0f + erff({x} * 0.70710678118654752f)))"
        case "gelu":
            inner = f"0.79788456080286536f * ({x} + 0.044715f * {x} * {x} * {x})"
            text = f"(0.5f * {x} * (1.0f + tanhf({inner})))"
        case "leaky_relu":
            text = f"({x} > {zero} ? {x} : {setting(0, 0.01)} * {x})"
        case "elu":
            text = (f"{setting(1, 1)} * ({x} > {zero} ? {x} : "
                    f"{setting(0, 1)} * expm1f({x} * {setting(2, 1)}))")  # fmt: skip
        case "softplus":
            beta = setting(0, 1)
            text = (f"({x} * {beta} > {setting(1, 20)} ? {x} : (fmaxf({x} * {beta}, {zero}) + "
                    f"log1pf(expf(-fabsf({x} * {beta})))) / {beta})")  # fmt: skip
        case "mse_loss_of":
            text = f"({x} * {x})"
        case "smooth_l1_loss_of" | "huber_loss_of":
            beta = setting(0, 1)
            small, large = f"0.5f * {x} * {x}", f"(fabsf({x}) - 0.5f * {beta})"
            if name == "huber_loss_of":
                large = f"{beta} * {large}"
            else:
                small = f"{small} / {beta}"
            text = f"(fabsf({x}) < {beta} ? {small} : {large})"
        case "hardtanh":
            text = f"fminf(fmaxf({x}, {setting(0, -1)}), {setting(1, 1)})"
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
