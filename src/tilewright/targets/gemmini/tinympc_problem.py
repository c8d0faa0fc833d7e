"""The oracle of the TinyMPC passes, and the inputs they are checked on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tilewright.core.records import Argument
from tilewright.parts.float_error import Bounded
from tilewright.parts.inputs import Array
from tilewright.targets.gemmini.tinympc import TinyMpc

Floats = NDArray[np.float64]


class TinyMpcProblem:
    """The recurrence in float64, with the error that float32 may have carried from step to step.

    Sums may be taken in any order and signs moved over them; the order of the steps is fixed.
    """

    fingerprint = "tinympc reference 1"
    distributions = ("stable", "large", "subnormal", "sparse")
    """`stable`: a system that decays, values around one. `large`: values up to 1e6 that grow with
    each step. `subnormal`: products and vectors below float32's normal range. `sparse`: most
    elements are zero, so that a wrong element is not hidden by a sum of others."""

    def __init__(self, mpc: TinyMpc) -> None:
        self.reduction = mpc.states + mpc.inputs
        self._mpc = mpc

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Bounded]:
        """The trajectory and its inputs; given rows of the trajectory are exact."""
        given = {name: Bounded.exact(array) for name, array in inputs.items()}
        return _forward(given) if self._mpc.direction == "forward" else _backward(given)

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Values for one input; matrices have at most the gain that keeps the trajectory finite."""
        values: Floats = rng.standard_normal(argument.shape)
        if distribution == "sparse":
            values = values * (rng.random(argument.shape) < 0.25)
        if argument.name in _VECTORS[self._mpc.direction]:
            scale = {"large": 1e6, "subnormal": 2e-39}.get(distribution, 1.0)
            vector: Array = (values * scale).astype(np.float32)
            return vector
        if distribution == "subnormal":  # some products keep digits, others vanish
            values = values * rng.choice(np.array([1.0, 1e-3]), argument.shape)
        gain = {"large": 1.5, "stable": 0.6, "subnormal": 0.9}.get(distribution, 1.0)
        row_sums = np.abs(values).sum(axis=1).max()
        matrix: Array = (values * (gain / max(row_sums, 1.0))).astype(np.float32)
        return matrix


_VECTORS = {"forward": frozenset("xd"), "backward": frozenset("pqr")}


def _forward(given: Mapping[str, Bounded]) -> dict[str, Bounded]:
    gain = _beside(-given["Kinf"], -_identity(len(given["Kinf"].value)))
    dynamics = _beside(given["Adyn"], given["Bdyn"])
    states = [given["x"][0]]
    controls: list[Bounded] = []
    for disturbance in given["d"].value:
        x = states[-1]
        controls.append(gain @ _above(x, Bounded.exact(disturbance)))
        states.append(dynamics @ _above(x, controls[-1]))
    return {"x": Bounded.stack(states), "u": Bounded.stack(controls)}


def _backward(given: Mapping[str, Bounded]) -> dict[str, Bounded]:
    pull = _beside(given["BdynT"], _identity(len(given["BdynT"].value)))
    step = _beside(given["AmBKt"], -given["KinfT"], _identity(len(given["AmBKt"].value)))
    costs = [given["p"][-1]]
    feedforward: list[Bounded] = []
    for i in reversed(range(len(given["q"].value))):
        p, r, q = costs[0], given["r"][i], given["q"][i]
        feedforward.insert(0, given["Quu_inv"] @ (pull @ _above(p, r)))
        costs.insert(0, step @ _above(p, r, q))
    return {"p": Bounded.stack(costs), "d": Bounded.stack(feedforward)}


def _identity(size: int) -> Bounded:
    """A vector is added as one more product, so that the bound holds for any order of the sum."""
    return Bounded.exact(np.eye(size))


def _beside(*matrices: Bounded) -> Bounded:
    return Bounded(
        np.concatenate([m.value for m in matrices], axis=1),
        np.concatenate([m.error for m in matrices], axis=1),
    )


def _above(*vectors: Bounded) -> Bounded:
    return Bounded(
        np.concatenate([v.value for v in vectors]), np.concatenate([v.error for v in vectors])
    )
