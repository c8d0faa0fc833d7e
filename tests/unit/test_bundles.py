"""What a bundle's kernels must show again before a win counts as confirmed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tilewright import bundles
from tilewright.bundles import Verification
from tilewright.core.codec import to_json
from tilewright.core.config import Settings
from tilewright.core.records import Candidate, Measured, Outcome
from tilewright.core.tasks import OpenTask
from tilewright.testing.toy import START, ToyTarget, ToyTask, toy_outcome
from tilewright.verification import FRESH_SESSIONS

WINNER = START.replace("9", "1")
FOUND = toy_outcome(START)
assert isinstance(FOUND, Measured)


class FlooredTask(ToyTask):
    """No kernel of it takes fewer than 50 cycles."""

    def floor(self, measured: Measured) -> tuple[float, str]:
        return 50.0, "the array"


def took(latency: float) -> Measured:
    assert isinstance(FOUND, Measured)
    return replace(FOUND, latency=latency)


def document(start: float, winner: float, version: str = "1") -> dict[str, Any]:
    """A bundle of a start and a winner that took so many cycles."""
    return {
        "run": {
            "task": "toy:digits",
            "settings": to_json(Settings().recorded()),
            "versions": {"toy": version},
        },
        "workload": to_json(ToyTask.workload),
        "files": {},
        "start": START,
        "winner": WINNER,
        "start_outcome": to_json(took(start)),
        "winner_outcome": to_json(took(winner)),
    }


class Machine:
    """Where both kernels take so many cycles, and what they were evaluated with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.latencies = {START: 200.0, WINNER: 100.0}
        self.settings: list[Mapping[str, object]] = []
        opened = OpenTask("toy:digits", ToyTarget(), FlooredTask())
        monkeypatch.setattr(bundles, "open_workload", lambda name, settings: opened)
        monkeypatch.setattr(bundles, "recheck", self._recheck)

    def _recheck(self, task: str, settings: Mapping[str, object], candidate: Candidate) -> Outcome:
        self.settings.append(settings)
        return took(self.latencies[candidate.source])

    def verify(self, given: dict[str, Any], start: float, winner: float) -> Verification:
        self.latencies = {START: start, WINNER: winner}
        return bundles.verify(given)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_a_win_that_is_reached_again_is_confirmed(machine: Machine) -> None:
    found = machine.verify(document(200, 100), 201, 101)
    assert found.reasons == ()
    assert found.speedup_here == pytest.approx(201 / 101)


def test_on_the_same_versions_both_kernels_must_take_what_they_took(machine: Machine) -> None:
    found = machine.verify(document(200, 100), 250, 125)
    assert found.reasons == (
        "the starting kernel takes 250 cycles here, not 200",
        "the winner takes 125 cycles here, not 100",
    )


def test_on_other_versions_the_speedup_alone_must_be_reached(machine: Machine) -> None:
    other = document(200, 100, version="0")
    assert machine.verify(other, 250, 125).confirmed
    assert machine.verify(other, 200, 110).reasons == ("the speedup is 1.818x here, not 2.000x",)


def test_a_winner_faster_than_the_hardware_can_be_is_refused(machine: Machine) -> None:
    (reason,) = machine.verify(document(200, 40), 200, 40).reasons
    assert reason.startswith(
        "the winner cannot be measured (invalid) on this machine: 40 cycles is faster than"
    )


def test_both_kernels_are_held_to_what_a_winner_must_bear_out(machine: Machine) -> None:
    machine.verify(document(200, 100), 200, 100)
    assert [settings["sessions"] for settings in machine.settings] == [FRESH_SESSIONS] * 2


def test_a_win_by_a_hair_that_is_none_here_is_not_confirmed(machine: Machine) -> None:
    found = machine.verify(document(104, 100), 100, 100)
    assert "the winner is no faster than the starting kernel here" in found.reasons


def test_the_noise_of_another_machine_allows_nothing(machine: Machine) -> None:
    claimed = document(125, 100, version="0")
    for outcome in ("start_outcome", "winner_outcome"):
        claimed[outcome]["noise"] = 1e9
    assert machine.verify(claimed, 110, 100).reasons == ("the speedup is 1.100x here, not 1.250x",)


def test_a_speedup_is_over_the_starting_kernel_of_the_task(machine: Machine) -> None:
    slowed = document(200, 100)
    slowed["start"] = WINNER
    (reason,) = machine.verify(slowed, 200, 100).reasons[:1]
    assert reason == (
        "the starting kernel is not that of the task, so the speedup says nothing about the task"
    )


def test_a_task_is_the_one_that_the_bundle_says(machine: Machine) -> None:
    other = document(200, 100)
    other["workload"]["operations"] = 12
    (reason,) = machine.verify(other, 200, 100).reasons
    assert reason == (
        "the bundle says that it is about toy:digits, but this name means another task here"
    )


def test_of_a_folder_the_files_decide_and_are_named(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = OpenTask("toy:digits", ToyTarget(), FlooredTask())
    monkeypatch.setattr(bundles, "open_task", lambda name, settings: opened)
    given = document(200, 100)
    given["files"] = {"workload.toml": ""}
    found = machine.verify(given, 200, 100)
    assert found.workload.endswith("(the bundle's own task)")
    assert found.confirmed
    given["workload"]["name"] = "toy:another-folder"
    assert machine.verify(given, 200, 100).confirmed
    given["workload"]["operations"] = 12
    (reason,) = machine.verify(given, 200, 100).reasons
    assert reason.endswith("but its files describe another task")
