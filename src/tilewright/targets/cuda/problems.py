"""The oracles: the definition of each workload as a formula, from which the errors of honest
kernels are computed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.parts.inputs import Array
from tilewright.parts.problem import (
    MOST_SAMPLED,
    FormulaProblem,
    ProductProblem,
    chosen,
    sampled_rows,
)
from tilewright.targets.cuda.shapes import Shape, outputs_of


class MatrixProblem(ProductProblem):
    """A matrix product. All matrices of `matmul3d` are the rows of one matrix."""

    fingerprint = "cuda product reference 1"
    output = "C"

    def __init__(self, shape: Shape, all_outputs: bool) -> None:
        self.reduction = shape.reduction
        self._all_outputs = all_outputs

    def operands(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Both matrices."""
        left, right = inputs.values()
        return {"left": left.reshape(-1, left.shape[-1]), "right": right}

    def sample(
        self, operands: Mapping[str, Array], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Some rows of one matrix and columns of the other, or all."""
        return operands if self._all_outputs else super().sample(operands, rng)


class ConvolutionProblem(FormulaProblem):
    """A convolution as the product of filters and patches."""

    fingerprint = "cuda convolution reference 1"

    def __init__(self, shape: Shape, all_outputs: bool) -> None:
        self.reduction = shape.reduction
        self._shape, self._all_outputs = shape, all_outputs

    def operands(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Filters as rows, one column for each output's patch, and the number that is added for
        each filter."""
        values, images, filters = self._shape.values, inputs["X"], inputs["F"]
        axes = tuple(range(2, images.ndim))
        padding, stride = values.get("P", 0), values.get("T", 1)
        images = np.pad(images, [(0, 0), (0, 0), *((padding, padding) for _ in axes)])
        windows = np.lib.stride_tricks.sliding_window_view(images, filters.shape[2:], axis=axes)
        windows = windows[(slice(None), slice(None), *(slice(None, None, stride) for _ in axes))]
        count = len(axes)
        order = (1, *range(2 + count, 2 + 2 * count), 0, *range(2, 2 + count))
        patches = windows.transpose(order).reshape(self.reduction, -1)
        found = {"left": filters.reshape(len(filters), -1), "right": patches}
        return {**found, "bias": inputs["bias"][:, None]} if "bias" in inputs else found

    def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
        """All outputs in order; for a sample, in the order of the operands."""
        found = operands["left"] @ operands["right"]
        if "bias" in operands:
            found = found + operands["bias"]
        images, filters = self._shape.values["N"], self._shape.values["K"]
        extents = math.prod(outputs_of(self._shape.values))
        if found.shape == (filters, images * extents):
            found = found.reshape(filters, images, extents).swapaxes(0, 1)
        return {"Y": found}

    def sample(
        self, operands: Mapping[str, Array], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Some of the outputs of every filter, or all."""
        if self._all_outputs:
            return operands
        right = operands["right"]
        most = max(8, MOST_SAMPLED // operands["left"].size)
        return {**operands, "right": right[:, chosen(right.shape[1], most, rng)]}


class RowProblem(FormulaProblem):
    """A computation in which each output row depends only on one input row."""

    def __init__(self, shape: Shape) -> None:
        self.reduction = shape.reduction
        self.fingerprint = f"cuda {shape.kind} reference 1"
        self._kind = shape.kind

    def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
        """The output `Y`, by name."""
        rows = operands["X"]
        if self._kind == "rowsum":
            return {"Y": rows.sum(-1)}
        powers = np.exp(rows - rows.max(-1, keepdims=True))
        return {"Y": powers / powers.sum(-1, keepdims=True)}

    def sample(
        self, operands: Mapping[str, Array], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """The operands of a random sample of rows."""
        return {"X": sampled_rows(operands["X"], rng)}


class ElementProblem(FormulaProblem):
    """A computation on single elements and their neighbours."""

    def __init__(self, shape: Shape) -> None:
        self.reduction = shape.reduction
        self.fingerprint = f"cuda {shape.kind} reference 1"
        self._kind = shape.kind

    def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
        """The output `Y`, by name."""
        X = operands["X"]
        if self._kind == "chain":
            scaled = X * operands["scale"] + operands["bias"]
            return {"Y": scaled / (1.0 + np.exp(-scaled)) * operands["G"]}
        around = (X[:-2, 1:-1] + X[2:, 1:-1]) + (X[1:-1, :-2] + X[1:-1, 2:])
        return {"Y": 0.5 * X[1:-1, 1:-1] + 0.125 * around}


def create_problem(shape: Shape, lowest: str = "") -> FormulaProblem:
    """The oracle of a shape; `lowest` is the lowest precision class that is accepted.

    Products of factors with few digits are exact if the inputs have few different values. Then only
    some outputs have an error, and a sample may not contain the largest one. The shapes that are
    checked on the CPU are small enough to compute the errors of all outputs.
    """
    if shape.kind.startswith("conv"):
        return ConvolutionProblem(shape, all_outputs=lowest != "")
    if shape.kind in ("gemm", "matmul3d"):
        return MatrixProblem(shape, all_outputs=lowest != "")
    return RowProblem(shape) if shape.kind in ("softmax", "rowsum") else ElementProblem(shape)
