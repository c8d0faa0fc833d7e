"""The oracle of matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tilewright.core.records import Argument
from tilewright.parts.arithmetic import SINGLE, Format
from tilewright.parts.error_tracking import TrackedArray, narrowed
from tilewright.parts.inputs import Array
from tilewright.parts.lazy_arrays import computed
from tilewright.parts.problem import FormulaProblem, chosen, products_of, sampled_product
from tilewright.targets.trainium.problems.digits import HALF
from tilewright.targets.trainium.shapes import Shape


class ProductProblem(FormulaProblem):
    """Matrix products and 3x3 convolutions whose operands may be bfloat16.

    One set of inputs has rows and columns of every distribution, because a run at full size takes
    seconds.
    """

    distributions = ("mixed",)
    leaves_inputs = True
    _SCALES = (1.0, 2.0**18, 1e-3, 1.0, 1.0, 1.0)
    """The largest scale is beyond the range of float16, which bfloat16 has."""

    def __init__(self, shape: Shape) -> None:
        self.fingerprint = f"trainium {shape.kind} reference 2"
        self._kind = shape.kind
        self.reduction = shape.sizes[2] if shape.kind == "gemm" else 9 * shape.sizes[1]
        self._output_digits = HALF if shape.kind == "gemm" else 24

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Matrices with columns, and images with channels of pixels, that each have one
        distribution.

        Along the axis that is not summed, neighbouring groups of varying length have the same
        distribution: small and large values, sparse ones, shifted means and equal values.
        """
        values = rng.standard_normal(argument.shape, np.float32)
        axis = 1 if self._kind == "gemm" else 0
        lines = argument.shape[axis]
        kinds = rng.integers(0, len(self._SCALES), lines)
        for line in range(lines):
            part = values[:, line] if axis else values[line]
            part *= self._SCALES[kinds[line]]
            if kinds[line] == 3:
                part *= rng.random(part.shape, np.float32) < 0.05
            if kinds[line] == 4:
                part += 30.0
            if kinds[line] == 5:
                part[...] = part.flat[0]
        return values.astype(argument.dtype, copy=False)

    def operands(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """The operands, unchanged."""
        return inputs

    def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
        """The product of two matrices."""
        left, right = narrowed(operands["left"], HALF), narrowed(operands["right"], HALF)
        found = left @ right
        return {"out": narrowed(found, HALF) if self._output_digits == HALF else found}

    def sample(
        self, operands: Mapping[str, Array], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Some rows of one matrix and columns of the other. The rows of a convolution are
        patches."""
        if self._kind == "gemm":
            left, right = sampled_product(operands["lhsT"].T, operands["rhs"], rng)
            return {"left": left.astype(np.float32), "right": right.astype(np.float32)}
        image, filters = operands["img"], operands["filt"]
        height, width = image.shape[2:]
        padded = np.pad(image[:, :, :, :], [(0, 0), (0, 0), (1, 1), (1, 1)])
        places = rng.integers(0, (len(image), height, width), (24, 3))
        patches = [padded[n, :, y : y + 3, x : x + 3].ravel() for n, y, x in places]
        some = chosen(len(filters), 24, rng)
        right = filters[some].reshape(len(some), -1).T
        return {"left": np.stack(patches), "right": np.ascontiguousarray(right)}

    def elements(
        self, operands: Mapping[str, Array], output: str, places: Array
    ) -> Mapping[str, Array]:
        """The sum for each element: a row times a column, or a patch times a filter."""
        if self._kind == "gemm":
            rows, columns = places.T
            left, right = operands["lhsT"][:, rows].T, operands["rhs"][:, columns].T
        else:
            padded = np.pad(operands["img"], [(0, 0), (0, 0), (1, 1), (1, 1)])
            patches = [padded[n, :, y : y + 3, x : x + 3].ravel() for n, _, y, x in places]
            left, right = np.stack(patches), operands["filt"][places[:, 1]].reshape(len(places), -1)
        return products_of(left.astype(np.float32), right.astype(np.float32))

    def followed(self, inputs: Mapping[str, Array], numbers: Format) -> dict[str, TrackedArray]:
        """All outputs. The deviations are those of sums whose terms have the same mean square, and
        are computed when they are read.
        """
        if self._kind == "gemm":
            left = inputs["lhsT"].astype(np.float64).T
            right = inputs["rhs"].astype(np.float64)
            # Before the product, because the squares need additional memory.
            norms: Norms = _OfRowAndColumn((left**2).sum(1), (right**2).sum(0))
            exact = left @ right
        else:
            exact, norms = _convolved(inputs["img"], inputs["filt"])
        # Each operand may be rounded to bfloat16, and each product's sum to float32.
        share = 0.0 if inputs_are_half(inputs) else 2 * 4.0**-HALF
        factor = (share + SINGLE.unit_roundoff**2) / self.reduction
        deviations = _Deviations(exact.reshape(-1), norms, factor, 2.0**-self._output_digits)
        return {"out": TrackedArray(exact, computed(deviations, exact.shape), [], ())}


@dataclass(frozen=True)
class _OfRowAndColumn:
    """Squared norms of a row of one matrix multiplied by those of a column of the other."""

    left: Array
    right: Array

    @property
    def width(self) -> int:
        return len(self.right)

    def of_rows(self, rows: Array) -> Array:
        found: Array = self.left[rows, None] * self.right
        return found


@dataclass(frozen=True)
class _OfPatchAndFilter:
    """Squared norms of a patch of an image, [n, y and x], multiplied by those of a filter."""

    patches: Array
    filters: Array

    @property
    def width(self) -> int:
        return int(self.patches.shape[1])

    def of_rows(self, rows: Array) -> Array:
        image, output = np.divmod(rows, len(self.filters))
        found: Array = self.patches[image] * self.filters[output, None]
        return found


Norms: TypeAlias = _OfRowAndColumn | _OfPatchAndFilter
"""The norms from which the deviation of each output element follows, as rows of `width`
elements."""


@dataclass(frozen=True)
class _Deviations:
    """The deviations of a part of the output, computed from norms, because arrays of the full size
    would take gigabytes."""

    exact: Array
    norms: Norms
    factor: float
    last_rounding: float

    def __call__(self, part: slice) -> Array:
        width = self.norms.width
        first, end = part.start // width, -(-part.stop // width)
        norms = self.norms.of_rows(np.arange(first, end)).reshape(-1)
        deviation = norms[part.start - first * width : part.stop - first * width]
        deviation *= self.factor
        deviation += (self.last_rounding * self.exact[part]) ** 2
        return np.sqrt(deviation, out=deviation)


def inputs_are_half(inputs: Mapping[str, Array]) -> bool:
    """Whether all given operands are bfloat16."""
    return all(array.dtype.itemsize == 2 for array in inputs.values())


def _convolved(image: Array, filters: Array) -> tuple[Array, _OfPatchAndFilter]:
    """The convolution, and squared norms of patches and of filters, in float64."""
    count, channels, height, width = image.shape
    outputs = len(filters)
    exact = np.zeros((count, outputs, height * width))
    norms = np.zeros((count, height * width))
    weights = filters.astype(np.float64)
    for n in range(count):
        padded = np.pad(image[n].astype(np.float64), [(0, 0), (1, 1), (1, 1)])
        squares = (padded**2).sum(0)
        for y in range(3):
            for x in range(3):
                part = padded[:, y : y + height, x : x + width].reshape(channels, -1)
                exact[n] += weights[:, :, y, x] @ part
                norms[n] += squares[y : y + height, x : x + width].ravel()
    of_filters = (weights.reshape(outputs, -1) ** 2).sum(1)
    return exact.reshape(count, outputs, height, width), _OfPatchAndFilter(norms, of_filters)
