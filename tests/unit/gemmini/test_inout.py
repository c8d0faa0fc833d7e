"""An argument that is given and written: drawn like an input, compared like an output."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.core.records import Argument, Workload
from tilewright.parts.cases import Cases
from tilewright.parts.inputs import Array

WORKLOAD = Workload(
    "gemmini:running-sum",
    "gemmini",
    (Argument("step", (4,), "int8", "input"), Argument("total", (5,), "int32", "inout")),
    4,
)


class RunningSum:
    """total[i + 1] = total[i] + step[i], from a given total[0]."""

    reduction = 1
    fingerprint = "running sum"

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        total = inputs["total"][0] + np.concatenate([[0], np.cumsum(inputs["step"], dtype=int)])
        return {"total": total.astype(np.int32)}


def test_the_reference_sees_its_values_and_all_of_it_is_compared() -> None:
    case = Cases(WORKLOAD, RunningSum(), 3)[0]
    given = case.initial["total"]
    right = RunningSum().reference({"step": case.initial["step"], "total": given})["total"]
    assert case.mismatch({"total": right.tobytes()}) is None
    assert case.mismatch({"total": given.tobytes()}) is not None, "nothing was written"
    right[0] += 1
    assert "total[0]" in (case.mismatch({"total": right.tobytes()}) or ""), "the given part changed"


def test_its_values_are_drawn_anew_for_each_timed_call() -> None:
    cases = Cases(WORKLOAD, RunningSum(), 3)
    rng = np.random.default_rng(1)
    first = cases[0].redrawn(rng)
    second = first.redrawn(rng)
    for name in ("step", "total"):
        drawn = {case.initial[name].tobytes() for case in (cases[0], first, second)}
        assert len(drawn) == 3, name
