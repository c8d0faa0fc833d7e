"""The role of a workload's oracle: what the answer is, and how inputs that fit are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from tilewright.core.records import Argument
from tilewright.parts.float_error import Bounded
from tilewright.parts.inputs import Array

Expected: TypeAlias = Array | Bounded


class Problem(Protocol):
    """The oracle of a workload. Lives in the process that evaluates, out of a kernel's reach."""

    reduction: int
    """How many products each output sums; the scale of the inputs is chosen by it."""

    fingerprint: str
    """Content hash of the reference's own code where a user wrote it, else its version."""

    def reference(self, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
        """Expected outputs by argument name, with the arguments' shapes.

        An array has the argument's dtype, and the workload's tolerance holds for it; float32
        outputs may be given as `Bounded`, which says how far each element may be off.
        """
        ...


@runtime_checkable
class DrawsInputs(Protocol):
    """A problem whose inputs must fit one another, which independent arrays would not."""

    distributions: tuple[str, ...]
    """Names, taken in turn by the checks."""

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Values of one argument that is given."""
        ...
