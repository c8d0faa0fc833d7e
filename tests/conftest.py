"""Options of the whole test suite."""

from __future__ import annotations

import pytest
from hypothesis import settings

# How long an example takes says what else the machine does.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files instead of comparing"
    )
    parser.addoption(
        "--raised-programs", type=int, default=5, help="random programs that are raised and run"
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
