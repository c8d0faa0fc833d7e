"""What results say of private inputs tells which are equal, and nothing of how to draw them."""

from __future__ import annotations

from tilewright.core.records import Check
from tilewright.core.roles import Attackable
from tilewright.core.tasks import open_task
from tilewright.parts import inputs

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
