"""Settings: limits, and the way to a database and back."""

from __future__ import annotations

import json

import pytest

from tilewright.core.budget import Budget, Spent
from tilewright.core.config import Settings
from tilewright.core.errors import ConfigurationError


@pytest.mark.parametrize(
    "wrong",
    [
        {"seed": -1},
        {"beam": 0},
        {"plans": 0},
        {"implementations": 1.5},
        {"iterations": -1},
        {"patience": 0},
        {"dropout": 1.0},
        {"dropout": -0.1},
        {"dropout": float("nan")},
        {"checks": 0},
        {"compile_timeout_s": 0.0},
        {"max_evaluations": 0},
        {"max_wall_s": 0.0},
        {"max_wall_s": float("nan")},
    ],
)
def test_an_impossible_setting_is_named(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=f"setting {next(iter(wrong))} is"):
        Settings(**wrong)  # type: ignore[arg-type]


def test_settings_survive_the_database() -> None:
    settings = Settings(seed=3, max_wall_s=90.0, max_evaluations=None)
    assert Settings.from_recorded(json.loads(json.dumps(settings.recorded()))) == settings


def test_a_setting_of_a_newer_version_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'colour' is not known"):
        Settings.from_recorded({"seed": 1, "colour": "red"})


def test_the_secret_of_the_inputs_is_not_recorded() -> None:
    assert "input_seed" not in Settings(seed=1).recorded()
    assert Settings(seed=1).evaluated_with(99)["input_seed"] == 99


def test_a_seed_of_the_inputs_that_is_given_counts_and_is_recorded() -> None:
    settings = Settings(seed=1, input_seed=5)
    assert settings.recorded()["input_seed"] == 5
    assert settings.evaluated_with(99)["input_seed"] == 5


def test_the_budget_is_in_the_settings() -> None:
    budget = Settings(max_evaluations=10, max_wall_s=2.0).budget
    assert budget == Budget(10, 2.0)
    assert budget.exhausted(Spent(9, 1.9)) is None
    assert budget.exhausted(Spent(10, 0.0)) == "the budget of 10 evaluations is spent"
    assert budget.exhausted(Spent(0, 2.0)) == "the budget of 2 s is spent"
    assert budget.evaluations_left(Spent(4)) == 6
    assert budget.evaluations_left(Spent(14)) == 0
    assert Budget().exhausted(Spent(10**9, 1e9)) is None
    assert Budget().evaluations_left(Spent(10**9)) is None
