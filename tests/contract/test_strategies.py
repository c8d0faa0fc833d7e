"""The installed search strategies pass the contract suite of their role."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

from tilewright.core.config import Settings
from tilewright.core.errors import UnknownNameError
from tilewright.core.plugins import load_strategy
from tilewright.core.roles import SearchStrategy
from tilewright.testing.search import SearchStrategyContract

NAMES = sorted(e.name for e in entry_points(group="tilewright.strategies"))


class TestInstalledStrategies(SearchStrategyContract):
    @pytest.fixture(params=[f"{name} {width}" for name in NAMES for width in (1, 3, 6)])
    def strategy(self, request: pytest.FixtureRequest) -> SearchStrategy:
        name, width = request.param.split()
        return load_strategy(Settings(strategy=name, beam=int(width), iterations=20, patience=5))


def test_the_built_in_ones_come_in_by_the_same_door() -> None:
    assert {"beam", "best-of-n", "islands"} <= set(NAMES)


def test_an_unknown_one_is_told_with_those_there_are() -> None:
    with pytest.raises(UnknownNameError, match="best-of-n"):
        load_strategy(Settings(strategy="best-of-m"))
