"""The oracles of kernels that only move or compare values."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.core.records import Argument
from tilewright.parts.float_error import blocks
from tilewright.parts.inputs import Array
from tilewright.parts.memory import KeptMemory
from tilewright.targets.trainium.shapes import Shape


class ExactProblem:
    """Kernels that only move or compare values, whose results have no rounding errors."""

    leaves_inputs = True

    def __init__(self, shape: Shape) -> None:
        self.fingerprint = f"trainium {shape.kind} reference 1"
        self.reduction = 1
        self._shape = shape

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """`out` with the values of `x`; a transpose is a view of it, which takes no memory."""
        given = inputs["x"]
        if self._shape.kind == "transpose":
            return {"out": given.swapaxes(1, 2)}
        size = self._shape.sizes[2]
        rows, columns = given.shape[0] - size + 1, given.shape[1] - size + 1
        across = given[:, :columns]
        for i in range(1, size):
            across = np.maximum(across, given[:, i : i + columns])
        found = across[:rows]
        for i in range(1, size):
            found = np.maximum(found, across[i : i + rows])
        return {"out": found}


class LargeExactProblem(ExactProblem):
    """An exact problem with hundreds of megabytes of inputs, drawn in a fraction of the time.

    Its three distributions detect the same errors as the usual ones of large tasks: values that are
    rounded, wrong results where parts are far smaller or larger than others, and maxima that start
    at 0.
    """

    distributions = ("small", "mixed scales", "shifted below")

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.fingerprint += ", large 2"
        self._memory = KeptMemory()

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Values of the input; each row of `mixed scales` has a power of two as its scale."""
        values = self._memory.empty(argument.shape, np.float32)
        _fill_uniform(values, rng)
        if distribution == "mixed scales":
            powers = rng.integers(-20, 21, (*argument.shape[:-1], 1))
            values *= np.ldexp(np.float32(1), powers).astype(np.float32)
        if distribution == "shifted below":
            values -= np.float32(1000)
        return values


def _fill_uniform(values: Array, rng: np.random.Generator) -> None:
    """Values from -0.5 to 0.5 with all 24 binary digits, in a tenth of the time of `rng.random`."""
    flat, digits = values.reshape(-1), np.random.SFC64(int(rng.integers(1 << 63)))
    for part in blocks(flat.size):
        count = part.stop - part.start
        whole = digits.random_raw(-(-count // 2)).view(np.int32)[:count]
        np.copyto(flat[part], whole, casting="unsafe")
        flat[part] *= np.float32(2**-32)
