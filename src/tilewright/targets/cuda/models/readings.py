"""What was recognised of a model: its arrays, computed values, and the product or the rows on which
they depend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.targets.cuda.models.formulas import (
    PRODUCT,
    Folded,
    Formula,
    Number,
    Total,
    is_of_a_row,
    is_simple,
    number,
    remapped,
)
from tilewright.targets.cuda.models.places import (
    FLOAT,
    ONE,
    Element,
    OtherError,
    Shape,
    Size,
    broadcast,
    count,
    steps,
    strided,
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
    kind: str = FLOAT
    """The C type of its elements."""


Axes = tuple[int, ...]
"""A number for each axis of an image."""


@dataclass(frozen=True)
class Windows:
    """How a window moves over images, along each of their axes.

    Between neighbouring elements of an image lie `spread` - 1 zeros, as in transposed convolutions.
    """

    extent: Axes
    stride: Axes
    padding: Axes
    dilation: Axes
    spread: Axes


@dataclass(frozen=True)
class Convolution:
    """A convolution: images, filters, how the windows move, and the number of groups of channels,
    each of which has filters of its own."""

    images: Array
    filters: Array
    windows: Windows
    groups: Size
    results: Shape
    """The extents of the axes of the resulting images."""


@dataclass(frozen=True)
class Loops:
    """Sums or largest elements that single threads compute, as in pooling."""


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


MOST_IMAGES = 65_535
"""Maximum number of products that one launch computes, because each is a layer of the grid."""
Begins = Product | Convolution | Scan | Loops
_BEGINS = {Product: "a product", Convolution: "a convolution", Scan: "a cumulative sum or product",
           Loops: "a loop over windows"}  # fmt: skip


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
        plain = self.formula == PRODUCT or isinstance(self.formula, Folded)
        more = "" if plain else " that is followed by element-wise operations"
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
            value = Value(element(value), value.shape)
        aligned = (ONE,) * (len(shape) - len(value.shape)) + value.shape
        rows = is_of_a_row(value.formula) and aligned == self._of_rows(shape)
        if value.shape == shape or rows or isinstance(value.formula, Number):
            return value.formula
        return remapped(value.formula, broadcast(value.shape, shape), count(shape))

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

    def begun(self, product: Begins, shape: Shape, formula: Formula = PRODUCT) -> Value:
        """The value of the product, convolution, scan or loops to which all further operations are
        applied."""
        again = isinstance(product, Loops) and self.begins == product
        again = again and count(self.grid) == count(shape)
        if not again and (self.begins is not None or self.columns):
            raise OtherError("it has several products, or one of computed values")
        if isinstance(product, Product) and count(shape[:-2])[0] > MOST_IMAGES:
            raise OtherError(f"it multiplies more than {MOST_IMAGES} pairs of matrices at once")
        if self.grid and count(self.grid) != count(shape):
            self.grid = ()  # what was computed before is computed again for each element
        found = self.computed(formula, shape)
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
            if value.kind != FLOAT:
                raise OtherError("it only chooses or reorders integers")
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


def is_view(shape: Shape, of: Shape) -> bool:
    """Whether a shape has as many elements as another one."""
    return count(shape) == count(of)


def element(array: Array) -> Element:
    """The element of an array for a place in its shape."""
    strides = steps(array.shape)
    if array.transposed:
        strides[-2:] = [ONE, array.shape[-2]]
    return Element(array.name, array.shape, strided(array.shape, strides), kind=array.kind)
