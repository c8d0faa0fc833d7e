"""Options of the whole test suite."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Generator
from typing import NoReturn

import pytest
from hypothesis import settings

from tilewright.parts.memory import keep_freed_memory

# Tests already run on every core; numpy's products, on as many threads again, would wait for them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Tests start hundreds of Python processes, and container images often forbid them to keep bytecode:
# each would then compile every module that it imports again, about half of what its start costs.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False  # and pytest would prepare each file of tests again in every run

# As in the processes that evaluate kernels, because tests compute with large arrays too.
keep_freed_memory()

# Between two runs of the garbage collector. With Python's 700, it took a tenth of the time.
COLLECT_EVERY = 50_000  # new objects

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
        help="the first case of each test, with a quarter of its random examples, without those "
        "that start another program",
    )
    parser.addoption(
        "--thorough", action="store_true", help="ten times as many random examples of each test"
    )
    parser.addoption(
        "--raised-programs", type=int, default=5, help="random programs that are raised and run"
    )


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One process more than cores for `-n auto`, because many tests wait: for time limits that must
    pass, for a browser, for processes that start. Under --quick no test waits, and xdist decides.
    """
    return None if config.getoption("--quick") else len(os.sched_getaffinity(0)) + 1


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Python looks for garbage only among what tests make, not among the 13,000 tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(COLLECT_EVERY)
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Garbage is sought once, and not five times as pytest does it, among a gigabyte of objects."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under --quick, the first case of each test runs, until it starts another program."""
    if config.getoption("--thorough"):
        _draw_examples(items, 10.0)
    if not config.getoption("--quick"):
        return
    _draw_examples(items, 0.25)
    subprocess.Popen.__init__ = _skip  # type: ignore[method-assign]
    os.fork = _skip
    first: dict[str, pytest.Item] = {}
    for item in items:
        if not {"slow", "toolchain", "browser"} & {marker.name for marker in item.iter_markers()}:
            first.setdefault(item.nodeid.partition("[")[0], item)
    chosen = set(first.values())
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def _draw_examples(items: list[pytest.Item], share: float) -> None:
    """Scale the number of random examples, which each test chooses by what one of its own costs.

    A profile of hypothesis says nothing to a test with a number of its own.
    """
    tests = {getattr(item.obj, "__func__", item.obj) for item in items if hasattr(item, "obj")}
    for test in tests:
        chosen = getattr(test, "_hypothesis_internal_use_settings", None)
        if chosen is not None:
            count = max(1, round(share * chosen.max_examples))
            test._hypothesis_internal_use_settings = settings(chosen, max_examples=count)


def _skip(*_: object, **__: object) -> NoReturn:
    pytest.skip("--quick starts no other program: no compiler, worker or server")
