"""The references: each definition as a formula, from which the allowed error of float32 kernels is
computed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.core.records import Argument
from tilewright.parts import inputs
from tilewright.parts.inputs import Array
from tilewright.parts.problem import (
    MOST_SAMPLED,
    FormulaProblem,
    ProductProblem,
    chosen,
    sampled_rows,
)
from tilewright.targets.host_c.shapes import EPSILON, Shape

_FAR_BELOW = 200.0  # the size of scores whose exponential is zero in float32
_FURTHER = 60.0  # factor of a row whose scores are below a maximum that was started at -1e4


class RowProblem(FormulaProblem):
    """Softmax and normalisations, in which each row of the output depends on one row of the
    input.
    """

    fingerprint = "host-c row reference 2"

    def __init__(self, shape: Shape) -> None:
        self.reduction = shape.reduction
        self._kind = shape.kind

    def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
        """`Y` from `X` and, for normalisations, `gain` and `bias`."""
        rows = operands["X"]
        if self._kind == "softmax":
            return {"Y": _softmax(rows)}
        if self._kind == "rmsnorm":
            spread = np.sqrt((rows * rows).mean(-1, keepdims=True) + EPSILON)
            return {"Y": rows / spread * operands["gain"]}
        centred = rows - rows.mean(-1, keepdims=True)
        spread = np.sqrt(rows.var(-1, keepdims=True) + EPSILON)
        return {"Y": centred / spread * operands["gain"] + operands["bias"]}

    def sample(
        self, operands: Mapping[str, Array], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """The operands of a random sample of rows."""
        return {**operands, "X": sampled_rows(operands["X"], rng)}


class AttentionProblem(FormulaProblem):
    """softmax(Q K^T / sqrt(D)) V for one head."""

    fingerprint = "host-c attention reference 3"
    distributions = (
        *(n for n in inputs.FLOAT_DISTRIBUTIONS if n not in ("huge values", inputs.LATER)),
        *("peaked", "tiny values", "far below"),
    )
    """`peaked`: one score of each row far above the others. `tiny values`: rows and columns of V in
    float32's subnormal range. `far below`: scores near -200 or, in a quarter of the rows, near
    -12,000, where a maximum that was initialised with 0 or with -1e4 is wrong."""

    def __init__(self, shape: Shape) -> None:
        self.reduction = shape.reduction
        self._scale = 1 / math.sqrt(shape.sizes[1])

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Values of Q, K or V."""
        if distribution in inputs.FLOAT_DISTRIBUTIONS:
            leading = argument.name == "Q"
            return inputs.draw(argument, distribution, self.reduction, rng, leading=leading)
        values = rng.standard_normal(argument.shape)
        if distribution == "peaked" and argument.name == "Q":
            values *= 6.0
        if distribution == "far below" and argument.name != "V":
            shift = math.sqrt(_FAR_BELOW * self._scale)
            values += -shift if argument.name == "Q" else shift
            if argument.name == "Q":
                values *= rng.choice([1.0, 1.0, 1.0, _FURTHER], (argument.shape[0], 1))
        if distribution == "tiny values" and argument.name == "V":
            rows, columns = (rng.choice([1e-39, 1.0], n) for n in argument.shape)
            values *= np.minimum(rows[:, None], columns)
        return values.astype(argument.dtype)

    def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
        """`O`, float32[S][D]."""
        scores = operands["Q"] @ operands["K"].T * self._scale
        return {"O": _softmax(scores) @ operands["V"]}

    def sample(
        self, operands: Mapping[str, Array], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Some rows of Q, and of the output."""
        queries = operands["Q"]
        most = int(np.clip(MOST_SAMPLED // queries.size, 4, 64))
        return {**operands, "Q": queries[chosen(len(queries), most, rng)]}


class MatrixProblem(ProductProblem):
    """C = A * B, or a 3x3 convolution of stride 1 whose input includes a border of one pixel."""

    def __init__(self, shape: Shape) -> None:
        self.fingerprint = f"host-c {shape.kind} reference 2"
        self.reduction = shape.reduction
        self.output = shape.arguments[-1].name

    def operands(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Both matrices. For a convolution, the first matrix has one row for the patch of each
        output pixel.
        """
        if "A" in inputs:
            return {"left": inputs["A"], "right": inputs["B"]}
        weights = inputs["weights"]
        channels, filters = weights.shape[2:]
        windows = np.lib.stride_tricks.sliding_window_view(inputs["input"], (3, 3), axis=(1, 2))
        patches = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, 9 * channels)
        return {"left": patches, "right": weights.reshape(-1, filters)}


def create_problem(shape: Shape) -> FormulaProblem:
    """The reference of a shape."""
    if shape.kind in ("gemm", "conv"):
        return MatrixProblem(shape)
    return AttentionProblem(shape) if shape.kind == "attention" else RowProblem(shape)


def _softmax(rows: Any) -> Any:
    powers = np.exp(rows - rows.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)
