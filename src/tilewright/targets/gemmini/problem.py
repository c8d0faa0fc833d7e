"""The references of workloads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tilewright.parts.inputs import Array
from tilewright.parts.problem import ProductProblem
from tilewright.targets.gemmini.convolution import Convolution
from tilewright.targets.gemmini.gemm import Gemm


class GemmProblem:
    """C = sat8(A * B), computed exactly."""

    fingerprint = "gemm reference 1"

    def __init__(self, gemm: Gemm) -> None:
        self.reduction = gemm.k

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The saturated product; `A` is int8[M][K], `B` is int8[K][N]."""
        exact = exact_product(inputs["A"], inputs["B"])
        return {"C": np.clip(exact, -128, 127).astype(np.int8)}


class FloatGemmProblem(ProductProblem):
    """C = A * B; `A` is float32[M][K], `B` is float32[K][N]."""

    fingerprint = "float gemm reference 2"
    output = "C"

    def __init__(self, gemm: Gemm) -> None:
        self.reduction = gemm.k

    def operands(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Both matrices."""
        return {"left": inputs["A"], "right": inputs["B"]}


class ConvolutionProblem:
    """output = sat8(bias + convolution), computed exactly as one matrix product."""

    fingerprint = "convolution reference 1"

    def __init__(self, conv: Convolution) -> None:
        self.reduction = conv.reduction
        self._conv = conv

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The saturated sums; argument shapes are those of `Convolution.workload`."""
        conv = self._conv
        exact = exact_product(_windows(conv, inputs["input"]), _weights(conv, inputs["weights"]))
        total = exact.astype(np.int64) + inputs["bias"]
        return {"output": np.clip(total, -128, 127).astype(np.int8).reshape(conv.output_shape)}


class FloatConvolutionProblem(ProductProblem):
    """output = bias + convolution in float32; the bias may be added anywhere among the products."""

    fingerprint = "float convolution reference 2"
    output = "output"

    def __init__(self, conv: Convolution) -> None:
        self.reduction = conv.reduction
        self._conv = conv

    def operands(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Patches and weights, with the bias as one more product with the factor one."""
        conv = self._conv
        windows, weights = _windows(conv, inputs["input"]), _weights(conv, inputs["weights"])
        rows = np.concatenate([windows, np.ones((len(windows), 1), windows.dtype)], axis=1)
        return {"left": rows, "right": np.concatenate([weights, inputs["bias"][None]])}


def _windows(conv: Convolution, pixels: Array) -> Array:
    """The input as a matrix with one row for each output pixel, which contains the factors in the
    order of the weights.
    """
    windows = sliding_window_view(pixels, (conv.size, conv.size), (1, 2))
    windows = windows[:, :: conv.stride, :: conv.stride]
    # From [n][y][x][c][r][t]:
    return windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, conv.reduction)


def _weights(conv: Convolution, weights: Array) -> Array:
    return weights.reshape(conv.reduction, conv.filters)


def exact_product(a: NDArray[np.int8], b: NDArray[np.int8]) -> Array:
    """a[M][K] * b[K][N] without rounding, in the fastest type that is exact.

    Every partial sum is at most K * 2**14 in magnitude; float32 represents integers up to 2**24
    exactly, and float64 up to 2**53, so the result does not depend on the order of the sums or on
    fused operations.
    """
    dtype = np.float32 if a.shape[1] << 14 <= 1 << 24 else np.float64
    product: Array = a.astype(dtype) @ b.astype(dtype)
    return product
