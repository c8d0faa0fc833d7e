"""A result evaluated again: inputs of fresh seeds, and the same binary must take the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tilewright import verification
from tilewright.core.records import Candidate, EvaluationRequest, Failed, Measured, Outcome
from tilewright.testing.toy import START, toy_outcome

FOUND = toy_outcome(START)
assert isinstance(FOUND, Measured)


class ScriptedExecutor:
    """Gives the outcomes of a list, one per evaluation."""

    def __init__(self, outcomes: list[Outcome], seen: list[Mapping[str, object]]) -> None:
        self._outcomes = outcomes
        self._seen = seen

    def __call__(self, task: str, settings: Mapping[str, object], workers: int) -> ScriptedExecutor:
        self._seen.append(settings)
        return self

    def __enter__(self) -> ScriptedExecutor:
        return self

    def __exit__(self, *given: object) -> None:
        pass

    def evaluate(self, requests: Sequence[EvaluationRequest]) -> list[Outcome]:
        return [self._outcomes.pop(0)]


@pytest.fixture
def seen() -> list[Mapping[str, object]]:
    return []


def recheck(
    monkeypatch: pytest.MonkeyPatch, seen: list[Mapping[str, object]], *outcomes: Outcome
) -> Outcome:
    monkeypatch.setattr(verification, "LocalExecutor", ScriptedExecutor(list(outcomes), seen))
    settings = {"input_seed": 1, "checks": 3, "compile_timeout_s": 7.0}
    return verification.recheck("toy:digits", settings, Candidate(START))


def test_a_repeatable_result_is_returned(
    monkeypatch: pytest.MonkeyPatch, seen: list[Mapping[str, object]]
) -> None:
    assert recheck(monkeypatch, seen, FOUND, FOUND) == FOUND


@pytest.mark.parametrize(
    ("second", "shown"),
    [
        (replace(FOUND, latency=FOUND.latency + 1), f"{FOUND.latency + 1:g}"),
        (Failed("check", "wrong_result", ""), "wrong_result"),
    ],
)
def test_a_result_that_does_not_repeat_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
    seen: list[Mapping[str, object]],
    second: Outcome,
    shown: str,
) -> None:
    again = recheck(monkeypatch, seen, FOUND, second)
    assert isinstance(again, Failed)
    assert (again.stage, again.kind) == ("measure", "non_deterministic")
    assert f"then {shown}, on the same inputs" in again.log


def test_what_hardware_measured_may_vary(
    monkeypatch: pytest.MonkeyPatch, seen: list[Mapping[str, object]]
) -> None:
    measured = replace(FOUND, quantity="measured")
    assert recheck(monkeypatch, seen, measured) == measured


def test_seeds_are_fresh_every_time_and_all_distributions_come_twice(
    monkeypatch: pytest.MonkeyPatch, seen: list[Mapping[str, object]]
) -> None:
    for _ in range(20):
        recheck(monkeypatch, seen, FOUND, FOUND)
    assert len({settings["input_seed"] for settings in seen}) == 20
    assert all(settings["checks"] == 8 for settings in seen)
    assert all(settings["compile_timeout_s"] == 7.0 for settings in seen)
