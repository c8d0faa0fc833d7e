"""The oracles: exact for int8, float64 with the error of float32 sums for bfloat16."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tilewright.core.records import Argument
from tilewright.parts import inputs
from tilewright.parts.float_error import SMALLEST_NORMAL, Bounded
from tilewright.parts.inputs import Array
from tilewright.parts.problem import Expected
from tilewright.targets.amx.elements import BF16, INT8, Element, bf16_bits, bf16_values
from tilewright.targets.amx.shapes import Gemm, Shape


class TileProblem:
    """A product of two matrices, which a convolution is too."""

    def __init__(self, shape: Shape, element: Element) -> None:
        self.reduction = shape.reduction
        self.fingerprint = f"{element.target} reference 2"
        self._shape = shape
        self._element = element

    @property
    def distributions(self) -> tuple[str, ...]:
        """The first is the timed one, which is drawn again for every call and must be cheap.

        Subnormal numbers are left out of bfloat16: the instruction takes them for zero.
        """
        if self._element is INT8:
            others = (name for name in inputs.DISTRIBUTIONS if name != "full-range")
            return ("full-range", *others)
        return ("small", "full-range", "sparse", "wide")

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Values of A, B, input or weights."""
        if self._element is INT8:
            return inputs.draw(argument, distribution, self.reduction, rng)
        if distribution == "small":
            # Sign, the last bit of the exponent and the fraction: magnitudes from 0.5 to below 2.
            bits = rng.integers(0, 1 << 16, argument.shape, np.uint16)
            return bits & 0x80FF | 0x3F00
        real = Argument(argument.name, argument.shape, "float32", argument.role)
        if distribution == "wide":
            values = rng.standard_normal(real.shape) * 10.0 ** rng.integers(-6, 6, real.shape)
        else:
            values = inputs.draw(real, distribution, self.reduction, rng)
        return bf16_bits(values)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Expected]:
        """`C` or `output`, in the type of the sums."""
        left, right = self._matrices(inputs)
        name = "C" if isinstance(self._shape, Gemm) else "output"
        if self._element is INT8:
            # Whole numbers below 2**53 are exact in float64, in whatever order.
            exact = (left @ right).astype(np.int32)
            return {name: exact.reshape(self._output_shape)}
        product = Bounded.exact(left) @ Bounded.exact(right)
        flushed = product.error + self.reduction * SMALLEST_NORMAL
        return {name: Bounded(product.value, flushed).reshape(*self._output_shape)}

    @property
    def _output_shape(self) -> tuple[int, ...]:
        return self._shape.arguments(self._element)[-1].shape

    def _matrices(self, inputs: Mapping[str, Array]) -> tuple[Array, Array]:
        """Both factors as float64; packed ones as they were before."""
        values = {
            name: bf16_values(array) if self._element is BF16 else array.astype(np.float64)
            for name, array in inputs.items()
        }
        if isinstance(self._shape, Gemm):
            b = values["B"]
            return values["A"], unpacked(b) if self._shape.packed else b
        windows = sliding_window_view(values["input"], (3, 3), (1, 2))  # [n][y][x][c][r][t]
        rows = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, self.reduction)
        taps = [unpacked(values["weights"][r, t]) for r in range(3) for t in range(3)]
        return rows, np.concatenate(taps)


def unpacked(packed: Array) -> Array:
    """[K / group][N][group] to [K][N]."""
    groups, columns, group = packed.shape
    return packed.transpose(0, 2, 1).reshape(groups * group, columns)
