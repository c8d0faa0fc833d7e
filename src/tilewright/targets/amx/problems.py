"""The references, which are exact for int8. For bfloat16, they are formulas from which the allowed
error of sums is computed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tilewright.core.records import Argument
from tilewright.parts import inputs
from tilewright.parts.inputs import Array
from tilewright.parts.problem import Problem, ProductProblem
from tilewright.targets.amx.elements import INT8, Element, bf16_bits, bf16_values
from tilewright.targets.amx.shapes import Gemm, Shape


class Int8Problem:
    """A product of two int8 matrices, to which a convolution can be reduced."""

    fingerprint = "amx-int8 reference 3"
    distributions = ("full-range", *(n for n in inputs.DISTRIBUTIONS if n != "full-range"))
    """The distributions. The first one is used for timed calls, is drawn again for every call, and
    must therefore be fast to draw.
    """

    def __init__(self, shape: Shape) -> None:
        self.reduction = shape.reduction
        self._shape = shape

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Values of A, B, input or weights."""
        return inputs.draw(argument, distribution, self.reduction, rng)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """`C` or `output`. Integers below 2**53 are exact in float64, independently of the order of
        sums.
        """
        values = {name: array.astype(np.float64) for name, array in inputs.items()}
        left, right = _matrices(self._shape, values)
        return {_output(self._shape): (left @ right).astype(np.int32)}


class Bf16Problem(ProductProblem):
    """A product of two bfloat16 matrices with float32 sums, in `C` or `output`."""

    fingerprint = "amx-bf16 reference 4"
    distributions = tuple(
        n for n in inputs.FLOAT_DISTRIBUTIONS if n not in ("extremes", "denormals")
    )
    """The distributions, as for int8. Subnormal numbers are left out, because the instruction
    treats them as zero.
    """

    def __init__(self, shape: Shape) -> None:
        self.reduction = shape.reduction
        self.output = _output(shape)
        self._shape = shape

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Values of A, B, input or weights."""
        if distribution == "small":
            # Sign, three bits of the exponent and the fraction: magnitudes from 1/128 to below 2.
            # With numbers of more similar size, most sums would be exact in float32. The rare
            # inexact ones might not be in the sample, and its error would be used as that of honest
            # kernels.
            bits = rng.integers(0, 1 << 16, argument.shape, np.uint16)
            return bits & 0x83FF | 0x3C00
        real = Argument(argument.name, argument.shape, "float32", argument.role)
        return bf16_bits(inputs.draw(real, distribution, self.reduction, rng))

    def operands(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Both matrices, as float64."""
        left, right = _matrices(self._shape, inputs)  # moved while they are small
        return {"left": bf16_values(left), "right": bf16_values(right)}


def create_problem(shape: Shape, element: Element) -> Problem:
    """The reference of a shape."""
    return Int8Problem(shape) if element is INT8 else Bf16Problem(shape)


def _output(shape: Shape) -> str:
    return "C" if isinstance(shape, Gemm) else "output"


def _matrices(shape: Shape, values: Mapping[str, Array]) -> tuple[Array, Array]:
    """Both factors; packed ones are unpacked."""
    if isinstance(shape, Gemm):
        b = values["B"]
        return values["A"], unpacked(b) if shape.packed else b
    windows = sliding_window_view(values["input"], (3, 3), (1, 2))  # [n][y][x][c][r][t]
    rows = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, shape.reduction)
    taps = [unpacked(values["weights"][r, t]) for r in range(3) for t in range(3)]
    return rows, np.concatenate(taps)


def unpacked(packed: Array) -> Array:
    """[K / group][N][group] to [K][N]."""
    groups, columns, group = packed.shape
    return packed.transpose(0, 2, 1).reshape(groups * group, columns)
