"""Options of the whole test suite."""

from __future__ import annotations

import os
import subprocess
from typing import NoReturn

import pytest
from hypothesis import settings

# Tests already run on every core; numpy's products, on as many threads again, would wait for them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# How long an example takes says what else the machine does.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files instead of comparing"
    )
    parser.addoption(
        "--quick",
        action="store_true",
        help="the first case of each test, without those that start another program",
    )
    parser.addoption(
        "--raised-programs", type=int, default=5, help="random programs that are raised and run"
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under --quick, the first case of each test runs, until it starts another program."""
    if not config.getoption("--quick"):
        return
    subprocess.Popen.__init__ = _skip  # type: ignore[method-assign]
    os.fork = _skip
    first: dict[str, pytest.Item] = {}
    for item in items:
        if not {"slow", "toolchain", "browser"} & {marker.name for marker in item.iter_markers()}:
            first.setdefault(item.nodeid.partition("[")[0], item)
    chosen = set(first.values())
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def _skip(*_: object, **__: object) -> NoReturn:
    pytest.skip("--quick starts no other program: no compiler, worker or server")
