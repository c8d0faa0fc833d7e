"""TinyMPC workloads: the two passes of a model-predictive controller over its horizon.

A name contains the pass, and the sizes unless they are 12 states, 4 inputs and the pass's usual
horizon: `tinympc-forward`, `tinympc-backward-12x4x20`. Every vector of the trajectory is a row of
its array, so its elements are adjacent in DRAM; matrices are row-major. For a product with a column
vector, the vector is therefore moved with a DRAM stride of one element, and one column wide. The
backward pass multiplies by two transposed matrices; like AmBKt, they are inputs, computed once when
the controller is set up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tilewright.core.errors import WorkloadError
from tilewright.core.records import Argument, ArgumentRole, Workload
from tilewright.targets.gemmini.instance import Instance
from tilewright.targets.gemmini.sizes import check_memory, parse_size

PATTERN = "tinympc-PASS-SxIxH"
MAX_HORIZON = 64
"""Maximum length of a trajectory. Inputs are drawn so that values stay in the range of float32 for
this number of steps."""

Direction = Literal["forward", "backward"]
_USUAL = {"forward": (12, 4, 5), "backward": (12, 4, 10)}


@dataclass(frozen=True, slots=True)
class TinyMpc:
    """Sizes of a pass over `horizon` states x[0..H-1], with H - 1 inputs in between.

    forward:  u[i] = -Kinf x[i] - d[i];  x[i+1] = Adyn x[i] + Bdyn u[i]   for i = 0 .. H-2
    backward: d[i] = Quu_inv (BdynT p[i+1] + r[i]);
              p[i] = q[i] + AmBKt p[i+1] - KinfT r[i]                    for i = H-2 .. 0
    """

    direction: Direction
    states: int
    inputs: int
    horizon: int

    @property
    def name(self) -> str:
        """Canonical workload name, without the target."""
        sizes = (self.states, self.inputs, self.horizon)
        usual = sizes == _USUAL[self.direction]
        return f"tinympc-{self.direction}" + ("" if usual else "-" + "x".join(map(str, sizes)))

    @property
    def steps(self) -> int:
        """The number of steps of the recurrence."""
        return self.horizon - 1

    @property
    def operations(self) -> int:
        """Multiply-accumulates of all matrix-vector products."""
        s, i = self.states, self.inputs
        products = s * s + 2 * s * i + (i * i if self.direction == "backward" else 0)
        return self.steps * products

    def arguments(self) -> tuple[Argument, ...]:
        """The arrays. The known end of the trajectory is part of the array that the pass fills."""
        s, i, h = self.states, self.inputs, self.horizon
        if self.direction == "forward":
            return (
                _floats("Adyn", s, s), _floats("Bdyn", s, i), _floats("Kinf", i, s),
                _floats("d", h - 1, i),
                _floats("x", h, s, role="inout"), _floats("u", h - 1, i, role="output"),
            )  # fmt: skip
        return (
            _floats("AmBKt", s, s), _floats("BdynT", i, s), _floats("KinfT", s, i),
            _floats("Quu_inv", i, i), _floats("q", h - 1, s), _floats("r", h - 1, i),
            _floats("p", h, s, role="inout"), _floats("d", h - 1, i, role="output"),
        )  # fmt: skip

    def workload(self, instance: Instance) -> Workload:
        """The workload record of these sizes."""
        return Workload(
            name=f"{instance.name}:{self.name}",
            target=instance.name,
            arguments=self.arguments(),
            operations=self.operations,
            source=self.name,
        )


def parse_tinympc(spec: str, instance: Instance) -> TinyMpc:
    """Sizes from a name like `tinympc-forward` or `tinympc-backward-12x4x20`.

    Raises `WorkloadError` if the name is malformed, if its sizes are impossible or too large, or if
    the instance computes with integers.
    """
    if instance.is_integer:
        raise WorkloadError(
            f"workload {spec!r} needs floating point, and {instance.name} computes with "
            f"{instance.element.dtype}. Use gemmini-fp32-4x4:{spec}."
        )
    sizes = "x".join([r"(-?\d+)"] * 3)
    match = re.fullmatch(f"tinympc-(forward|backward)(?:-{sizes})?", spec, re.ASCII)
    if match is None:
        raise WorkloadError(
            f"workload {spec!r} is malformed. Write {PATTERN} with PASS forward or backward, "
            "and states, inputs and horizon, for example tinympc-forward or "
            "tinympc-backward-12x4x20."
        )
    direction: Direction = "forward" if match.group(1) == "forward" else "backward"
    states, inputs, horizon = _USUAL[direction]
    if match.group(2) is not None:
        states, inputs = (parse_size(spec, t, "states and inputs") for t in match.groups()[1:3])
        horizon = parse_size(spec, match.group(4), "the horizon", smallest=2)
    if horizon > MAX_HORIZON:
        raise WorkloadError(
            f"workload {spec!r} has a horizon of {horizon}. Choose {MAX_HORIZON} or less, so that "
            "no value of the trajectory leaves float32's range."
        )
    mpc = TinyMpc(direction, states, inputs, horizon)
    check_memory(spec, sum(4 * a.shape[0] * a.shape[1] for a in mpc.arguments()))
    return mpc


def _floats(name: str, rows: int, columns: int, role: ArgumentRole = "input") -> Argument:
    return Argument(name, (rows, columns), "float32", role)
