"""The oracles: float64, with the error that float32 kernels may have by forward analysis.

The bounds follow the definitions, with sums in any order, functions off by `FUNCTION_ROUNDINGS`
and quotients by `QUOTIENT_ROUNDINGS` (`parts.float_error`). A kernel that computes a variance as
the difference of two large sums is outside them where those cancel, as it should be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tilewright.core.records import Argument
from tilewright.parts import inputs
from tilewright.parts.float_error import Bounded
from tilewright.parts.inputs import Array
from tilewright.parts.problem import Problem
from tilewright.targets.host_c.shapes import EPSILON, Shape


class RowProblem:
    """Softmax and normalisations: each row of the output follows from one row of the input."""

    fingerprint = "host-c row reference 1"

    def __init__(self, shape: Shape) -> None:
        self.reduction = shape.reduction
        self._kind = shape.kind

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Bounded]:
        """`Y` from `X` and, for normalisations, `gain` and `bias`."""
        rows = Bounded.exact(inputs["X"])
        if self._kind == "softmax":
            return {"Y": _softmax(rows)}
        centred = rows
        if self._kind == "layernorm":
            centred = rows - _mean(rows)
        spread = (_mean(centred * centred) + Bounded.exact(EPSILON)).sqrt()
        scaled = centred / spread * Bounded.exact(inputs["gain"])
        if self._kind == "layernorm":
            scaled = scaled + Bounded.exact(inputs["bias"])
        return {"Y": scaled}


class AttentionProblem:
    """softmax(Q K^T / sqrt(D)) V for one head."""

    fingerprint = "host-c attention reference 1"
    distributions = ("small", "peaked", "sparse", "tiny values")
    """`peaked`: one score of each row far above the others. `tiny values`: rows of V in float32's
    subnormal range. Larger scores than these have no accurate exponential in float32."""

    def __init__(self, shape: Shape) -> None:
        self.reduction = shape.reduction
        self._scale = 1 / math.sqrt(shape.sizes[1])

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Values of Q, K or V."""
        if distribution == "sparse":
            return inputs.draw(argument, "sparse", self.reduction, rng)
        values = rng.standard_normal(argument.shape)
        if distribution == "peaked" and argument.name == "Q":
            values *= 6.0
        if distribution == "tiny values" and argument.name == "V":
            values *= rng.choice([1e-39, 1.0], (argument.shape[0], 1))
        return values.astype(argument.dtype)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Bounded]:
        """`O`, float32[S][D]."""
        keys = Bounded.exact(inputs["K"].T)
        scores = Bounded.exact(inputs["Q"]) @ keys * Bounded.exact(self._scale)
        return {"O": _softmax(scores) @ Bounded.exact(inputs["V"])}


class GemmProblem:
    """C = A * B."""

    fingerprint = "host-c gemm reference 1"

    def __init__(self, shape: Shape) -> None:
        self.reduction = shape.reduction

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Bounded]:
        """The product; `A` is float32[M][K], `B` is float32[K][N]."""
        return {"C": Bounded.exact(inputs["A"]) @ Bounded.exact(inputs["B"])}


class ConvolutionProblem:
    """3x3 convolution of stride 1; the input brings its border of one pixel."""

    fingerprint = "host-c convolution reference 1"

    def __init__(self, shape: Shape) -> None:
        self.reduction = shape.reduction

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Bounded]:
        """`output`, float32[N][H][W][K]: one product of patches, for sums in any order."""
        given, weights = inputs["input"], inputs["weights"]
        batch, height, width = (n - b for n, b in zip(given.shape, (0, 2, 2), strict=False))
        channels, filters = weights.shape[2:]
        windows = np.lib.stride_tricks.sliding_window_view(given, (3, 3), axis=(1, 2))
        patches = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, 9 * channels)
        product = Bounded.exact(patches) @ Bounded.exact(weights.reshape(-1, filters))
        shape = (batch, height, width, filters)
        return {"output": Bounded(product.value.reshape(shape), product.error.reshape(shape))}


def create_problem(shape: Shape) -> Problem:
    """The oracle of a shape."""
    if shape.kind == "gemm":
        return GemmProblem(shape)
    if shape.kind == "conv":
        return ConvolutionProblem(shape)
    return AttentionProblem(shape) if shape.kind == "attention" else RowProblem(shape)


def _softmax(rows: Bounded) -> Bounded:
    powers = (rows - rows.max()).exp()
    return (powers / powers.sum()).at_most(1.0)


def _mean(rows: Bounded) -> Bounded:
    return rows.sum() / Bounded.exact(float(rows.value.shape[-1]))
