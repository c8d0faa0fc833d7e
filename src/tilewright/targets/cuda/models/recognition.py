"""Finds what a model computes (a product, a convolution, row operations or element-wise operations)
and its formula.

    view, t, addmm, view, relu      Recognised(product of input 0 and self.fc.weight transposed,
                                               relu(value + self.fc.bias[place % count]))

The operations were written down by the process that runs the model, so that nothing here is
believed: a kernel that is made of them is checked like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.targets.cuda.models.formulas import (
    COLUMNS,
    PRODUCT,
    Calculated,
    Element,
    Formula,
    OtherError,
    Shape,
    Size,
    Total,
    calculated,
    is_of_a_row,
    number,
)

_VIEWS = {"view", "_unsafe_view", "reshape", "flatten", "unsqueeze", "squeeze", "clone", "alias",
          "detach", "contiguous"}  # fmt: skip
_OF_TWO = {"add", "sub", "rsub", "mul", "div", "maximum", "minimum"}
"""Operations with two operands; all others have one."""


@dataclass(frozen=True)
class Array:
    """An input or an array of the model (`self.fc.weight`), viewed with a shape."""

    name: str
    shape: Shape
    transposed: bool = False


@dataclass(frozen=True)
class Value:
    """A computed value: a formula with a shape."""

    formula: Formula
    shape: Shape


@dataclass(frozen=True)
class Convolution:
    """A convolution: images, filters, and how the windows move."""

    images: Array
    filters: Array
    stride: int
    padding: int


@dataclass(frozen=True)
class Product:
    """A matrix product. The right factor may be transposed."""

    left: Array
    right: Array


@dataclass(frozen=True)
class Recognised:
    """A recognised model. `formula` computes each element of `shape`. If it contains `Total`s, each
    row has `columns` elements.

    `begins` is the product or convolution to whose elements the formula is applied.
    """

    formula: Formula
    shape: Shape
    begins: Product | Convolution | None
    columns: Shape
    grid: Shape
    """The shape of the computed elements, which is that of the rows if the result has one element
    per row."""
    arrays: Mapping[str, Shape]
    """The shapes of the inputs and of the model's arrays, before they are viewed with other
    shapes."""

    @property
    def words(self) -> str:
        """A description of the model."""
        more = " that is followed by element-wise operations" if self.formula != PRODUCT else ""
        if self.begins is not None:
            return ("a product" if isinstance(self.begins, Product) else "a convolution") + more
        return "an operation on rows" if self.columns else "a chain of element-wise operations"


@dataclass
class _Reading:
    values: dict[str, Array | Value] = field(default_factory=dict)
    begins: Product | Convolution | None = None
    columns: Shape = ()
    grid: Shape = ()

    def operand(self, said: Any, shape: Shape) -> Formula:
        """An operand of an element-wise operation whose result has a given shape."""
        if not isinstance(said, Mapping):
            return number(said)
        value = self.value(said)
        if isinstance(value, Array):
            if value.transposed:
                raise OtherError("it transposes an array")
            return _element(value, shape)
        rows = is_of_a_row(value.formula) and value.shape == self._of_rows(shape)
        if value.shape == shape or rows:
            return value.formula
        raise OtherError("it computes with arrays of incompatible shapes")

    def _of_rows(self, shape: Shape) -> Shape:
        """The shape of an array with one value for each row."""
        axes = len(self.columns)
        return (*shape[: len(shape) - axes], *((1, 1),) * axes)

    def value(self, said: Any) -> Array | Value:
        if not isinstance(said, Mapping) or said.get("array") not in self.values:
            raise OtherError("it computes with something other than its arrays")
        return self.values[said["array"]]

    def computed(self, formula: Formula, shape: Shape) -> Value:
        """A value with a formula for each element."""
        if not is_of_a_row(formula):
            if self.grid and _count(self.grid) != _count(shape):
                raise OtherError("it computes arrays of several sizes")
            self.grid = self.grid or shape
        return Value(formula, shape)

    def begun(self, product: Product | Convolution, shape: Shape) -> Value:
        if self.begins is not None or self.columns:
            raise OtherError("it has several products, or one of computed values")
        self.begins = product
        return self.computed(PRODUCT, shape)

    def row(self, kind: str, of: Formula, columns: Shape) -> Total:
        """A value with a formula for each row."""
        if self.begins is not None:
            raise OtherError("it reduces a product, for which several kernels would be needed")
        if self.columns and self.columns != columns:
            raise OtherError("it reduces rows of different lengths")
        self.columns = columns
        return Total(kind, of)


def recognised(full: Any, reduced: Any) -> Recognised:
    """The model with these operations at its own sizes and at those of the check.

    Raises `OtherError` for a model that none of tilewright's kernels computes.
    """
    try:
        return _recognised(full, reduced)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        said = "the record of what it computes cannot be read"
        raise OtherError(said) from None


def _recognised(full: Any, reduced: Any) -> Recognised:
    pairs = list(zip(full["operations"], reduced["operations"], strict=True))
    if not pairs:
        raise OtherError("it computes nothing, or has too many operations")
    reading, arrays = _Reading(), dict[str, Shape]()
    for number_, (one, other) in enumerate(pairs):
        if one["does"] != other["does"]:
            raise OtherError("at other sizes it executes other operations")
        for said, again in zip(_arrays(one), _arrays(other), strict=True):
            name = str(said["array"])
            if name and name not in reading.values:
                if said["dtype"] != "torch.float32":
                    raise OtherError(f"it computes with {str(said['dtype'])[:20]}, and not float32")
                arrays[name] = _shape(said["shape"], again["shape"])
                reading.values[name] = Array(name, arrays[name])
        found = _operation(reading, one, other)
        reading.values[f"{number_}.0"] = found
    if len(full["outputs"]) != 1:
        raise OtherError("it returns several arrays")
    result = reading.values[full["outputs"][0]]
    if isinstance(result, Array):
        raise OtherError("it computes nothing")
    return Recognised(result.formula, result.shape, reading.begins, reading.columns, reading.grid,
                      arrays)  # fmt: skip


def _arrays(operation: Mapping[str, Any]) -> list[Any]:
    return [said for said in operation["given"] if isinstance(said, dict) and "array" in said]


def _shape(full: Sequence[int], reduced: Sequence[int]) -> Shape:
    return tuple((int(one), int(other)) for one, other in zip(full, reduced, strict=True))


def _count(shape: Shape) -> Size:
    return math.prod(one for one, _ in shape), math.prod(other for _, other in shape)


def _operation(
    reading: _Reading, one: Mapping[str, Any], other: Mapping[str, Any]
) -> Array | Value:
    does = str(one["does"]).removeprefix("aten.").partition(".")
    name, given, words = does[0], list(one["given"]), dict(one["words"])
    shape = _shape(one["gives"][0]["shape"], other["gives"][0]["shape"])
    if name in _VIEWS:
        value = reading.value(given[0])
        if _count(value.shape) != _count(shape):
            raise OtherError("it takes parts of an array")
        return type(value)(**{**value.__dict__, "shape": shape})
    if name in ("t", "transpose", "permute", "numpy_T"):
        array = reading.value(given[0])
        if not isinstance(array, Array) or len(shape) != 2 or shape != array.shape[::-1]:
            raise OtherError("it transposes what it has computed")
        return Array(array.name, shape, not array.transposed)
    settings = [g for g in given if not isinstance(g, dict)]
    again = [g for g in other["given"] if not isinstance(g, dict)]
    match name:
        case "mm":
            return reading.begun(_product(reading, given), shape)
        case "addmm":
            value = reading.begun(_product(reading, given[1:]), shape)
            return reading.computed(_plus(value.formula, reading, given[0], shape), shape)
        case "convolution":
            return _convolution(reading, given, shape)
    reduced_axes = _row_operation(reading, name, given, settings, shape)
    if reduced_axes is not None:
        return reduced_axes
    if settings != again or words != dict(other["words"]):
        raise OtherError("it computes with numbers that follow from its sizes")
    count = 2 if name in _OF_TWO else 1
    operands = tuple(reading.operand(said, shape) for said in given[:count])
    more = [*given[count:], *words.values()]
    return reading.computed(calculated(name, operands, more), shape)


def _plus(formula: Formula, reading: _Reading, said: Any, shape: Shape) -> Formula:
    return Calculated("({0} + {1})", (formula, reading.operand(said, shape)))


def _product(reading: _Reading, given: Sequence[Any]) -> Product:
    left, right = reading.value(given[0]), reading.value(given[1])
    if not (isinstance(left, Array) and isinstance(right, Array)):
        raise OtherError("it multiplies matrices that it has computed")
    if left.transposed:
        raise OtherError("the left factor of its product is transposed")
    return Product(left, right)


def _convolution(reading: _Reading, given: Sequence[Any], shape: Shape) -> Value:
    images, filters = reading.value(given[0]), reading.value(given[1])
    stride, padding, dilation, transposed, _, groups = given[3:9]
    axes = len(shape) - 2
    if not (isinstance(images, Array) and isinstance(filters, Array)):
        raise OtherError("it convolves what it has computed")
    plain = not transposed and groups == 1 and set(dilation) == {1} and axes in (2, 3)
    alike = len(set(stride)) == len(set(padding)) == 1
    if not plain or not alike or (axes == 3 and (stride[0] != 1 or padding[0] != 0)):
        raise OtherError("its convolution is transposed, grouped or dilated, or moves differently "
                         "along its axes, or in three dimensions at all")  # fmt: skip
    if any(one != other for one, other in filters.shape[2:]):
        raise OtherError("the windows of its convolution depend on its sizes")
    found = reading.begun(Convolution(images, filters, int(stride[0]), int(padding[0])), shape)
    if given[2] is None:
        return found
    bias = reading.value(given[2])
    if not isinstance(bias, Array) or bias.shape != (shape[1],):
        raise OtherError("the bias of its convolution is computed")
    element = Element(bias.name, bias.shape, shape[2:])
    return reading.computed(Calculated("({0} + {1})", (found.formula, element)), shape)


def _element(array: Array, shape: Shape) -> Element:
    """The element of an array for a position in the shape to which the array is broadcast."""
    if array.shape == shape:
        return Element(array.name, array.shape, (), True)
    extents = [size for size in array.shape if size != (1, 1)]
    aligned = ((1, 1),) * (len(shape) - len(array.shape)) + array.shape
    used = [i for i, size in enumerate(aligned) if size != (1, 1)]
    if not extents:
        return Element(array.name, array.shape, shape)
    if used != list(range(used[0], used[-1] + 1)) or any(aligned[i] != shape[i] for i in used):
        raise OtherError("it broadcasts an array along axes that lie between others")
    return Element(array.name, array.shape, shape[used[-1] + 1 :])


def _row_operation(
    reading: _Reading, name: str, given: Sequence[Any], settings: Sequence[Any], shape: Shape
) -> Value | None:
    """An operation that reduces rows, in terms of sums and largest elements; None for others."""
    known = ("sum", "mean", "amax", "amin", "max", "min", "_softmax", "_log_softmax", "logsumexp",
             "native_layer_norm", "linalg_vector_norm")  # fmt: skip
    if name not in known:
        return None
    if name in ("max", "min") and len(given) < 2:
        raise OtherError("it reduces all elements to one number")
    source = reading.value(given[0])
    over = given[2] if name == "linalg_vector_norm" else (given[1] if len(given) > 1 else None)
    axes = [over] if isinstance(over, int) else over
    if name == "native_layer_norm":
        axes = list(range(len(source.shape) - len(given[1]), len(source.shape)))
    if not axes or len(axes) == len(source.shape):
        raise OtherError("it reduces all elements to one number")
    axes = sorted(axis % len(source.shape) for axis in axes)
    if axes != list(range(axes[0], len(source.shape))):
        raise OtherError("it reduces along an axis that is not the last one")
    columns = source.shape[axes[0] :]
    x = reading.operand(given[0], source.shape)
    reading.computed(x, source.shape)

    def total(kind: str, of: Formula) -> Formula:
        return reading.row(kind, of, columns)

    def mean(of: Formula) -> Formula:
        return Calculated("({0} / {1})", (total("sum", of), COLUMNS))

    if name == "native_layer_norm":
        off = Calculated("({0} - {1})", (x, mean(x)))
        spread = Calculated(f"rsqrtf({{0}} + {number(given[4]).text})",
                            (mean(Calculated("({0} * {0})", (off,))),))  # fmt: skip
        found: Formula = Calculated("({0} * {1})", (off, spread))
        for said, sign in zip(given[2:4], "*+", strict=True):
            if said is not None:
                found = Calculated(f"({{0}} {sign} {{1}})", (found, reading.operand(said, shape)))
        return reading.computed(found, shape)
    if name in ("_softmax", "_log_softmax", "logsumexp"):
        most = total("most", x)
        raised = Calculated("expf({0} - {1})", (x, most))
        whole = total("sum", raised)
        text, of = {
            "_softmax": ("({0} / {1})", (raised, whole)),
            "_log_softmax": ("({0} - {2} - logf({1}))", (x, whole, most)),
            "logsumexp": ("({0} + logf({1}))", (most, whole)),
        }[name]
        return reading.computed(Calculated(text, of), shape)
    if name == "linalg_vector_norm":
        if given[1] not in (1, 2):
            raise OtherError("it computes a norm other than the first or the second")
        powers = Calculated("fabsf({0})" if given[1] == 1 else "({0} * {0})", (x,))
        found = total("sum", powers)
        return Value(found if given[1] == 1 else Calculated("sqrtf({0})", (found,)), shape)
    if name == "mean":
        return Value(mean(x), shape)
    kind = {"sum": "sum", "amax": "most", "max": "most"}.get(name, "least")
    return Value(total(kind, x), shape)
