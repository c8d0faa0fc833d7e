"""Every kind of workload rejects every attack, at sizes that take a second."""

from __future__ import annotations

import pytest
from nki_world import SMALL

from tilewright.core.tasks import open_task
from tilewright.evaluation.preflight.examine import examine, refusal
from tilewright.parts import cases, error_tracking


@pytest.mark.parametrize("name", SMALL)
def test_every_kind_of_workload_is_sound(name: str) -> None:
    opened = open_task(f"trainium:{name}", {"input_seed": 11})
    results = examine(opened.task, lambda: opened.target.brief().failure_kinds)
    assert refusal(name, results) is None
    assert len(results) >= 12


@pytest.mark.parametrize("name", ["gemm-256x512x256", "attention-512x128", "layernorm-128x512"])
def test_a_second_evaluation_gives_the_same_bits_without_deviations(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = open_task(f"trainium:{name}", {"input_seed": 11}).task.check_cases()[0]
    expected = {n: bytes(values) for n, values in case.expected.items()}
    monkeypatch.setattr(error_tracking, "_deviation_of_product", pytest.fail)
    monkeypatch.setattr(error_tracking, "_carried", pytest.fail)
    given = {a.name: case.given[a.name] for a in case.arguments if a.is_given}
    assert {n: bytes(v) for n, v in case.reference(given).items()} == expected


def test_large_tasks_are_compared_on_fewer_distributions_and_say_which(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = open_task("trainium:layernorm-128x512", {"input_seed": 11}).task
    assert len(task.check_cases()) == 14
    assert set(task.omissions()) == {"huge values"}  # squares of its values exceed float32
    monkeypatch.setattr(cases, "LARGE", 1024)
    task = open_task("trainium:layernorm-128x512", {"input_seed": 11}).task
    assert [case.distribution for case in task.check_cases()] == list(cases.OF_LARGE)
    assert set(task.omissions()) & set(cases.OF_LARGE) == set()
    assert ", ".join(cases.OF_LARGE) in task.omissions()["sparse"]
    product = open_task("trainium:gemm-128x512x128", {"input_seed": 11}).task
    assert len(product.check_cases()) == cases.LEAST_OF_LARGE
