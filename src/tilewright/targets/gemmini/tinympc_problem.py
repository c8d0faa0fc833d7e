"""The reference of the TinyMPC passes, and the inputs on which they are checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core.records import Argument
from tilewright.parts import inputs
from tilewright.parts.inputs import Array
from tilewright.parts.problem import FormulaProblem
from tilewright.targets.gemmini.tinympc import TinyMpc

Floats = NDArray[np.float64]


class TinyMpcProblem(FormulaProblem):
    """The recurrence of a pass. Kernels may compute sums in any order, and may change the signs of
    terms instead of the sign of a sum.

    Kernels may not change the order of the steps.
    """

    fingerprint = "tinympc reference 2"
    distributions = (
        "stable",
        "large",
        "subnormal",
        "sparse",
        "shifted mean",
        "constant rows",
        "mixed scales",
        "near overflow",
    )
    """`stable`: a system that decays, values around one. `large`: values up to 1e6 that grow with
    each step. `subnormal`: products and vectors below float32's normal range. `sparse`: most
    elements are zero, so that a wrong element is not hidden by a sum of others. Vectors of the
    others are drawn as for any task (`parts.inputs`), and the system decays."""

    def __init__(self, mpc: TinyMpc) -> None:
        self.reduction = mpc.states + mpc.inputs
        self._mpc = mpc

    def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
        """The trajectory and its inputs. The known rows of the trajectory are exact."""
        return _forward(operands) if self._mpc.direction == "forward" else _backward(operands)

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Values for one input. The gain of matrices is limited so that the trajectory remains
        finite.
        """
        is_vector = argument.name in _VECTORS[self._mpc.direction]
        if is_vector and distribution in inputs.FLOAT_DISTRIBUTIONS and distribution != "sparse":
            return inputs.draw(argument, distribution, self.reduction, rng)
        values: Floats = rng.standard_normal(argument.shape)
        if distribution == "sparse":
            values = values * (rng.random(argument.shape) < 0.25)
        if is_vector:
            scale = {"large": 1e6, "subnormal": 2e-39}.get(distribution, 1.0)
            vector: Array = (values * scale).astype(np.float32)
            return vector
        if distribution == "subnormal":  # some products keep digits, others vanish
            values = values * rng.choice(np.array([1.0, 1e-3]), argument.shape)
        gain = {"large": 1.5, "sparse": 1.0, "subnormal": 0.9}.get(distribution, 0.6)
        row_sums = np.abs(values).sum(axis=1).max()
        matrix: Array = (values * (gain / max(row_sums, 1.0))).astype(np.float32)
        return matrix


_VECTORS = {"forward": frozenset("xd"), "backward": frozenset("pqr")}


def _forward(given: Mapping[str, Any]) -> dict[str, Any]:
    gain = _joined_columns(-given["Kinf"], -np.eye(len(given["Kinf"])))
    dynamics = _joined_columns(given["Adyn"], given["Bdyn"])
    states = [given["x"][0]]
    controls: list[Any] = []
    for step in range(len(given["d"])):
        x = states[-1]
        controls.append(gain @ np.concatenate([x, given["d"][step]]))
        states.append(dynamics @ np.concatenate([x, controls[-1]]))
    return {"x": np.stack(states), "u": np.stack(controls)}


def _backward(given: Mapping[str, Any]) -> dict[str, Any]:
    pull = _joined_columns(given["BdynT"], np.eye(len(given["BdynT"])))
    step = _joined_columns(given["AmBKt"], -given["KinfT"], np.eye(len(given["AmBKt"])))
    costs = [given["p"][-1]]
    feedforward: list[Any] = []
    for i in reversed(range(len(given["q"]))):
        p, r, q = costs[0], given["r"][i], given["q"][i]
        feedforward.insert(0, given["Quu_inv"] @ (pull @ np.concatenate([p, r])))
        costs.insert(0, step @ np.concatenate([p, r, q]))
    return {"p": np.stack(costs), "d": np.stack(feedforward)}


def _joined_columns(*matrices: Any) -> Any:
    """A vector is added as another product with an identity matrix, so that sums may be in any
    order.
    """
    return np.concatenate(matrices, axis=1)
