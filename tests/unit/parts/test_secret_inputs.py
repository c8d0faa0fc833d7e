"""What results say of private inputs tells which are equal, and nothing of how to draw them."""

from __future__ import annotations

import numpy as np

from tilewright.core.records import Check
from tilewright.core.roles import Attackable
from tilewright.core.tasks import open_task
from tilewright.parts import inputs
from tilewright.parts.cases import Cases
from tilewright.targets.host_c.problems import MatrixProblem
from tilewright.targets.host_c.shapes import parse_shape

NAME = "host-c:gemm-16x16x16"


def checks(secret: int) -> list[Check]:
    task = open_task(NAME, {"input_seed": secret}).task
    assert isinstance(task, Attackable)
    return [case._case.check for case in task.check_cases()]  # type: ignore[attr-defined]


def test_no_result_holds_a_seed_that_inputs_are_drawn_from() -> None:
    shown = {check.seed for check in checks(11)}
    drawn = {inputs.derived_seed(11, number) for number in range(100)}
    assert shown.isdisjoint(drawn | {11})


def test_equal_inputs_are_told_from_others() -> None:
    assert checks(11) == checks(11)
    assert {c.seed for c in checks(11)}.isdisjoint({c.seed for c in checks(12)})


def test_what_outputs_hold_before_a_call_varies_from_case_to_case() -> None:
    """NaN, numbers, or both: a kernel must not rely on finding either."""
    task = open_task(NAME, {"input_seed": 11}).task
    cases = Cases(task.workload, MatrixProblem(parse_shape("gemm-16x16x16")), 11)
    shares = [np.isnan(cases[number].initial["C"]).mean() for number in range(20)]
    assert {round(2 * share) for share in shares} == {0, 1, 2}
