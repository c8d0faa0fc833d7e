"""What was recognised of a model: its arrays, computed values, and the product or the rows on which
they depend."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.targets.cuda.models.formulas import (
    COLUMN,
    FLOAT,
    PRODUCT,
    Calculated,
    Element,
    Formula,
    Number,
    OtherError,
    Shape,
    Size,
    Total,
    is_of_a_row,
    number,
    parts,
)

_SEVERAL_SIZES = "it computes arrays of several sizes"


@dataclass(frozen=True)
class Array:
    """An input, an array of the model (`self.fc.weight`) or the result of an earlier kernel
    (`step 0`), viewed with a shape. If it is transposed, its last two axes have changed places."""

    name: str
    shape: Shape
    transposed: bool = False
    kind: str = FLOAT
    """The C type of its elements."""


@dataclass(frozen=True)
class Value:
    """A computed value: a formula with a shape."""

    formula: Formula
    shape: Shape
    viewed: bool = False
    """Whether it is viewed with another shape than that with which it was computed."""
    kind: str = FLOAT
    """The C type of its elements."""


@dataclass(frozen=True)
class Convolution:
    """A convolution: images, filters, and how the windows move."""

    images: Array
    filters: Array
    stride: int
    padding: int


@dataclass(frozen=True)
class Product:
    """A matrix product, or as many as the factors' first axis has places. The right factor may be
    transposed."""

    left: Array
    right: Array


@dataclass(frozen=True)
class Scan:
    """The sums (`+`) or products (`*`) of each element of a row and all elements before it.

    Rows are described as in `Recognised`.
    """

    sign: str
    of: Formula
    columns: Shape
    inner: Shape


Begins = Product | Convolution | Scan
_BEGINS = {Product: "a product", Convolution: "a convolution", Scan: "a cumulative sum or product"}


@dataclass(frozen=True)
class Recognised:
    """A kernel that computes a model or a part of it.

    `formula` computes each element of `shape`. If it contains `Total`s, each row has `columns`
    elements. Elements of a row are adjacent, or if `inner` has several elements, this number of
    places apart.

    `begins` is the product, convolution or scan to whose elements the formula is applied.
    """

    formula: Formula
    shape: Shape
    begins: Begins | None
    columns: Shape
    inner: Shape
    grid: Shape
    """The shape of the computed elements, which is that of the rows if the result has one element
    per row."""
    arrays: Mapping[str, Shape]
    """The shapes of the inputs, the model's arrays and the results of earlier kernels, before they
    are viewed with other shapes."""
    kind: str
    """The C type of the result's elements."""

    @property
    def words(self) -> str:
        """A description of what the kernel computes."""
        more = " that is followed by element-wise operations" if self.formula != PRODUCT else ""
        if self.begins is not None:
            return _BEGINS[type(self.begins)] + more
        return "an operation on rows" if self.columns else "a chain of element-wise operations"


@dataclass
class Reading:
    """The values that were read so far by the names of PyTorch's results, and what the kernel that
    computes them does."""

    values: dict[str, Array | Value] = field(default_factory=dict)
    begins: Begins | None = None
    columns: Shape = ()
    inner: Shape = ()
    grid: Shape = ()

    def operand(self, said: Any, shape: Shape) -> Formula:
        """An operand of an element-wise operation whose result has a given shape."""
        if not isinstance(said, Mapping):
            return number(said)
        value = self.value(said)
        if isinstance(value, Array):
            if value.transposed:
                raise OtherError("it transposes an array")
            return element(value, shape)
        aligned = ((1, 1),) * (len(shape) - len(value.shape)) + value.shape
        rows = is_of_a_row(value.formula) and aligned == self._of_rows(shape)
        if value.shape == shape or rows or isinstance(value.formula, Number):
            return value.formula
        if value.viewed:
            raise OtherError("it computes with arrays of incompatible shapes")
        return _broadcast(value.formula, shape)

    def _of_rows(self, shape: Shape) -> Shape:
        """The shape of an array with one value for each row."""
        end = len(shape) - len(self.inner)
        begin = end - len(self.columns)
        return (*shape[:begin], *((1, 1),) * len(self.columns), *shape[end:])

    def value(self, said: Any) -> Array | Value:
        """The array or computed value that an operation names."""
        if not isinstance(said, Mapping) or said.get("array") not in self.values:
            raise OtherError("it computes with something other than its arrays")
        return self.values[said["array"]]

    def computed(self, formula: Formula, shape: Shape) -> Value:
        """A value with a formula for each element.

        Values of fewer elements, such as `1 + weight`, are computed again for each element of the
        values to which they are broadcast.
        """
        if is_of_a_row(formula):
            return Value(formula, shape)
        if self.grid and count(shape) != count(self.grid):
            pairs = list(zip(count(shape), count(self.grid), strict=True))
            larger = all(one >= known for one, known in pairs)
            fixed = self.begins is not None or bool(self.columns)
            if not is_simple(formula) or (larger and fixed):
                raise OtherError(_SEVERAL_SIZES)
            if not larger and any(one > known for one, known in pairs):
                raise OtherError(_SEVERAL_SIZES)
            if not larger:
                return Value(formula, shape)
        self.grid = shape
        return Value(formula, shape)

    def begun(self, product: Begins, shape: Shape) -> Value:
        """The value of the product, convolution or scan to which all further operations are
        applied."""
        if self.begins is not None or self.columns:
            raise OtherError("it has several products, or one of computed values")
        if self.grid and count(self.grid) != count(shape):
            self.grid = ()  # what was computed before is computed again for each element
        found = self.computed(PRODUCT, shape)
        self.begins = product
        return found

    def row(self, kind: str, of: Formula, columns: Shape, inner: Shape) -> Total:
        """A value with a formula for each row."""
        if self.begins is not None:
            raise OtherError("it reduces a product")
        if self.columns and (self.columns, self.inner) != (columns, inner):
            raise OtherError("it reduces rows of different lengths")
        self.columns, self.inner = columns, inner
        return Total(kind, of)

    def kernel(self, value: Value, arrays: Mapping[str, Shape]) -> Recognised:
        """The kernel that computes a value of arrays with these shapes."""
        if is_simple(value.formula):
            return Recognised(value.formula, value.shape, None, (), (), value.shape, arrays,
                              value.kind)  # fmt: skip
        if not is_of_a_row(value.formula):
            self.require_whole(value.shape)
        return Recognised(value.formula, value.shape, self.begins, self.columns, self.inner,
                          self.grid, arrays, value.kind)  # fmt: skip

    def require_whole(self, shape: Shape) -> None:
        """Raise `OtherError` if a value has fewer elements than the model computes."""
        if self.grid and count(shape) != count(self.grid):
            raise OtherError(_SEVERAL_SIZES)


def count(shape: Shape) -> Size:
    """The number of elements of a shape."""
    return math.prod(one for one, _ in shape), math.prod(other for _, other in shape)


def is_simple(formula: Formula) -> bool:
    """Whether a formula contains neither rows nor an element of a product."""
    return not any(isinstance(part, Total) or part == PRODUCT for part in parts(formula))


def is_view(shape: Shape, of: Shape) -> bool:
    """Whether a shape has as many elements as another one."""
    return count(shape) == count(of)


def _broadcast(formula: Formula, shape: Shape) -> Formula:
    """A formula of arrays alone for each position in a larger shape."""
    made = dict[Formula, Formula]()
    for part in parts(formula):
        match part:
            case Element():
                made[part] = element(Array(part.array, part.shape, kind=part.kind), shape)
            case Calculated():
                made[part] = Calculated(part.text, tuple(made[one] for one in part.of))
            case Number() if part not in (PRODUCT, COLUMN):
                made[part] = part
            case _:
                raise OtherError("it computes with arrays of incompatible shapes")
    return made[formula]


def element(array: Array, shape: Shape) -> Element:
    """The element of an array for a position in the shape to which the array is broadcast."""
    if array.shape == shape:
        return Element(array.name, array.shape, (), True, array.kind)
    extents = [size for size in array.shape if size != (1, 1)]
    aligned = ((1, 1),) * (len(shape) - len(array.shape)) + array.shape
    used = [i for i, size in enumerate(aligned) if size != (1, 1)]
    if not extents:
        return Element(array.name, array.shape, shape, kind=array.kind)
    if used != list(range(used[0], used[-1] + 1)) or any(aligned[i] != shape[i] for i in used):
        raise OtherError("it broadcasts an array along axes that lie between others")
    return Element(array.name, array.shape, shape[used[-1] + 1 :], kind=array.kind)
