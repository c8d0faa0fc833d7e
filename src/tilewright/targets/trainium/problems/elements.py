"""The oracle of rotary embeddings and depthwise convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.parts.arithmetic import Format
from tilewright.parts.error_tracking import TrackedArray
from tilewright.parts.inputs import Array
from tilewright.parts.memory import KeptMemory
from tilewright.parts.problem import FormulaProblem, chosen
from tilewright.targets.trainium.problems.parts import followed_in_parts, slices
from tilewright.targets.trainium.shapes import Shape


class ElementProblem(FormulaProblem):
    """Rotary embeddings and depthwise convolutions, with few products for each element."""

    def __init__(self, shape: Shape) -> None:
        self._memory = KeptMemory()
        self.fingerprint = f"trainium {shape.kind} reference 1"
        self.reduction = shape.sizes[3] if shape.kind == "conv1d" else 2
        self._kind = shape.kind

    def followed(self, inputs: Mapping[str, Array], numbers: Format) -> Mapping[str, TrackedArray]:
        """All outputs; those of a convolution for some channels at a time."""
        if self._kind == "rope":
            return super().followed(inputs, numbers)
        image, taps = inputs["img"], inputs["filt"]
        count, channels, _, width = image.shape
        parts = (
            ((slice(None), p), {"img": image[:, p], "filt": taps[p]})
            for p in slices(channels, count * width)
        )
        return followed_in_parts(self.formula, image.shape, parts, numbers, self._memory)

    def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
        """`out`, with the axes of the input."""
        if self._kind == "rope":
            cos, sin = operands["cos"], operands["sin"]
            half = len(cos)
            even, odd = operands["x_in"][:half], operands["x_in"][half:]
            return {"out": np.concatenate([even * cos - odd * sin, odd * cos + even * sin])}
        image, taps = operands["img"], operands["filt"]
        width, count = image.shape[-1], taps.shape[-1]
        before = (count - 1) // 2
        padded = np.pad(image, [(0, 0), (0, 0), (0, 0), (before, count - 1 - before)])
        parts = [padded[..., t : t + width] * taps[None, :, :, 0, t, None] for t in range(count)]
        return {"out": np.stack(parts).sum(0)}

    def sample(
        self, operands: Mapping[str, Array], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Some columns, or the channels of one image."""
        if self._kind == "rope":
            some = chosen(operands["cos"].shape[1], 256, rng)
            return {name: array[:, some] for name, array in operands.items()}
        some = chosen(operands["img"].shape[1], 16, rng)
        return {"img": operands["img"][:1, some], "filt": operands["filt"][some]}
