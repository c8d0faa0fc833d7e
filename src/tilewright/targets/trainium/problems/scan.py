"""The oracle of the selective scan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.core.records import Argument
from tilewright.parts.inputs import Array
from tilewright.parts.problem import FormulaProblem, chosen
from tilewright.targets.trainium.shapes import Shape


class ScanProblem(FormulaProblem):
    """The selective scan of mamba. A is negative and delta positive, as in the authors' model."""

    fingerprint = "trainium mamba reference 1"
    distributions = ("small", "sparse", "long memory", "large steps", "mixed scales")

    def __init__(self, shape: Shape) -> None:
        self.reduction = shape.sizes[2]

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Values of one argument."""
        if argument.name == "A":
            values = -rng.random(argument.shape)
        elif argument.name == "delta":
            least, most = {"long memory": (1e-4, 1e-3), "large steps": (1.0, 9.0)}.get(
                distribution, (0.01, 1.0)
            )
            values = rng.uniform(least, most, argument.shape)
        else:
            values = rng.standard_normal(argument.shape)
            if distribution == "sparse":
                values *= rng.random(argument.shape) < 0.1
            if distribution == "mixed scales" and argument.name == "u":
                values *= 10.0 ** rng.integers(-3, 4, (*argument.shape[:-1], 1))
        return values.astype(argument.dtype)

    def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
        """`out`, float32[batch][channels][steps]."""
        delta, u, gain, read = (operands[name] for name in ("delta", "u", "B", "C"))
        driven = delta * u
        state: Any = 0.0
        steps = []
        for t in range(delta.shape[-1]):
            decay = np.exp(delta[:, :, t : t + 1] * operands["A"])
            fresh = driven[:, :, t : t + 1] * gain[:, None, :, t]
            state = fresh if t == 0 else decay * state + fresh
            steps.append((state * read[:, None, :, t]).sum(-1))
        return {"out": np.stack(steps, axis=-1)}

    def sample(
        self, operands: Mapping[str, Array], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Some channels over all steps, because errors grow along the steps."""
        some = chosen(operands["delta"].shape[1], 4, rng)
        found = {name: operands[name][:, some] for name in ("delta", "u")}
        return {**operands, **found, "A": operands["A"][some]}
