"""A result evaluated again: inputs of fresh seeds, and the same binary must take the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest

from tilewright import verification
from tilewright.core.config import Settings
from tilewright.core.errors import WorkloadError
from tilewright.core.records import (
    AttackResult,
    Candidate,
    EvaluationRequest,
    Failed,
    Measured,
    Outcome,
)
from tilewright.core.roles import CheckCase, Checkpoint
from tilewright.core.tasks import OpenTask
from tilewright.testing.toy import START, ToyTarget, ToyTask, toy_outcome

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

    def evaluate(
        self, requests: Sequence[EvaluationRequest], checkpoint: Checkpoint | None = None
    ) -> list[Outcome]:
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
        (Failed("check", "wrong_result", ""), "wrong result"),
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
    assert all(settings["checks"] == 10 for settings in seen)
    assert all(settings["compile_timeout_s"] == 7.0 for settings in seen)


def test_a_start_that_fails_where_a_winner_must_not_is_refused(
    monkeypatch: pytest.MonkeyPatch, seen: list[Mapping[str, object]]
) -> None:
    wrong = Failed("check", "wrong_result", "1 of 5 elements differ (extremes inputs)")
    monkeypatch.setattr(verification, "LocalExecutor", ScriptedExecutor([FOUND, wrong], seen))
    opened = OpenTask("toy:digits", ToyTarget(), ToyTask())
    verification.check_kernel(opened, Settings())
    with pytest.raises(WorkloadError, match=r"the starting kernel .*\(extremes inputs\)"):
        verification.check_kernel(opened, Settings())
    assert [settings["checks"] for settings in seen] == [10, 10]
    assert len({settings["input_seed"] for settings in seen}) == 2


def test_the_start_is_examined_before_a_budget_is_spent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Open(ToyTask):
        def check_cases(self) -> list[object]:
            return []

        def hostile_kernels(self) -> dict[str, str]:
            return {}

    def refuse(*_: object) -> None:
        raise WorkloadError("the start is wrong")

    opened = OpenTask("toy:digits", ToyTarget(), Open())
    monkeypatch.setattr(verification, "attack", lambda *given: [])
    monkeypatch.setattr(verification, "check_kernel", refuse)
    for _ in range(2):  # what was refused is not remembered as sound
        with pytest.raises(WorkloadError, match="the start is wrong"):
            verification.require_preflight(opened, Settings(), tmp_path, {})


def test_the_check_and_the_start_are_examined_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each waits for the other to begin, so that one after the other would not pass."""
    both = Barrier(2, timeout=60)

    def attack(*_: object) -> list[AttackResult]:
        both.wait()
        return []

    monkeypatch.setattr(verification, "attack", attack)
    monkeypatch.setattr(verification, "check_kernel", lambda *_: both.wait())
    opened = OpenTask("toy:digits", ToyTarget(), AttackableTask())
    verification.require_preflight(opened, Settings(), tmp_path, {})


@pytest.mark.parametrize("start_is_wrong", [False, True])
def test_a_refused_check_ends_the_evaluation_of_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start_is_wrong: bool
) -> None:
    """The start is evaluated until it is no longer needed, and the check's reason is the one that
    counts."""

    def check_kernel(opened: OpenTask, settings: Settings, checkpoint: Checkpoint) -> None:
        if start_is_wrong:
            raise WorkloadError("the start is wrong")
        while True:
            checkpoint()

    accepted = AttackResult("zeros", "writes zeros", "accepted", remedy="narrow the tolerance")
    monkeypatch.setattr(verification, "attack", lambda *_: [accepted])
    monkeypatch.setattr(verification, "check_kernel", check_kernel)
    opened = OpenTask("toy:digits", ToyTarget(), AttackableTask())
    with pytest.raises(WorkloadError, match="accepts a wrong kernel, 'zeros'"):
        verification.require_preflight(opened, Settings(), tmp_path, {})


def test_a_run_that_checks_more_is_rechecked_as_often(
    monkeypatch: pytest.MonkeyPatch, seen: list[Mapping[str, object]]
) -> None:
    monkeypatch.setattr(verification, "LocalExecutor", ScriptedExecutor([FOUND, FOUND], seen))
    verification.recheck("toy:digits", {"checks": 30}, Candidate(START))
    assert [settings["checks"] for settings in seen] == [30]


class AttackableTask(ToyTask):
    def check_cases(self) -> Sequence[CheckCase]:
        return []

    def hostile_kernels(self) -> Mapping[str, str]:
        return {}


def test_a_task_is_examined_once_for_the_same_inputs_and_versions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    examined: list[object] = []

    def attack(task: str, settings: Mapping[str, object], *_: object) -> list[AttackResult]:
        examined.append(settings)
        return []

    monkeypatch.setattr(verification, "attack", attack)
    monkeypatch.setattr(verification, "check_kernel", lambda *_: None)
    (tmp_path / ".tilewright").mkdir()
    opened = OpenTask("toy:digits", ToyTarget(), AttackableTask())
    first = Settings(checks=3)
    counts = []
    for settings, version in [
        (first, "1"), (first, "1"), (replace(first, checks=4), "1"), (first, "2"), (first, "2"),
    ]:  # fmt: skip
        verification.require_preflight(opened, settings, tmp_path, {"toy": version})
        counts.append(len(examined))
    assert counts == [1, 1, 2, 3, 3]
    monkeypatch.setattr(verification, "RULES_VERSION", "of another day")
    verification.require_preflight(opened, first, tmp_path, {"toy": "2"})
    assert len(examined) == 4
