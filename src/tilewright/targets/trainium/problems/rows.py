"""The oracle of normalisations and running sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.parts.arithmetic import Format
from tilewright.parts.error_tracking import TrackedArray
from tilewright.parts.inputs import Array
from tilewright.parts.memory import KeptMemory
from tilewright.parts.problem import FormulaProblem, chosen, sampled_rows
from tilewright.targets.trainium.problems.parts import followed_in_parts, slices
from tilewright.targets.trainium.shapes import Shape

_ROWS = {"cumsum": "x", "rmsnorm": "a", "layernorm": "input_tensor"}


class RowProblem(FormulaProblem):
    """Normalisations and running sums, in which each output row depends on one input row."""

    def __init__(self, shape: Shape) -> None:
        self._memory = KeptMemory()
        self.fingerprint = f"trainium {shape.kind} reference 1"
        self.reduction = shape.sizes[1]
        self._kind = shape.kind

    def operands(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """The inputs; for a running sum, also the last column that each output adds."""
        if self._kind != "cumsum":
            return inputs
        return {**inputs, "ends": np.arange(inputs["x"].shape[1])}

    def followed(self, inputs: Mapping[str, Array], numbers: Format) -> dict[str, TrackedArray]:
        """All outputs, computed for some rows at a time."""
        operands = self.operands(inputs)
        name = _ROWS[self._kind]
        rows = operands[name]
        parts = ((p, {**operands, name: rows[p]}) for p in slices(len(rows), rows.shape[1]))
        return followed_in_parts(self.formula, rows.shape, parts, numbers, self._memory)

    def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
        """`out` from the rows and, for normalisations, their weights."""
        if self._kind == "cumsum":
            rows = operands["x"]
            summed = np.arange(rows.shape[1])[:, None] <= operands["ends"]
            return {"out": rows @ summed.astype(np.float64)}
        if self._kind == "rmsnorm":
            rows = operands["a"]
            return {"out": rows / np.sqrt((rows * rows).mean(-1, keepdims=True)) * operands["g"]}
        rows = operands["input_tensor"]
        centred, variance = rows.spread(-1, keepdims=True)
        scaled = centred / np.sqrt(variance + 1e-5) * operands["gamma_vector"]
        return {"out": scaled + operands["beta_vector"]}

    def sample(
        self, operands: Mapping[str, Array], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Some rows; for a running sum, some columns."""
        name = _ROWS[self._kind]
        found = {**operands, name: sampled_rows(operands[name], rng)}
        if self._kind == "cumsum":
            found["ends"] = operands["ends"][chosen(len(operands["ends"]), 32, rng)]
        return found
