"""`LocalExecutor` keeps the contract of executors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tilewright.core.records import Outcome
from tilewright.evaluation.local import LocalExecutor
from tilewright.evaluation.timeouts import StageTimeouts
from tilewright.testing import scripted
from tilewright.testing.executor import ExecutorContract, OpenExecutor


@pytest.fixture
def scripted_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted.write_entry_point(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("scripted_target")
class TestLocalExecutor(ExecutorContract):
    @pytest.fixture
    def open_executor(self) -> Iterator[OpenExecutor]:
        opened: list[LocalExecutor] = []

        def open_executor(
            lookup: Callable[[str], Outcome | None] | None = None,
            store: Callable[[str, Outcome], None] | None = None,
        ) -> LocalExecutor:
            timeouts = StageTimeouts(build=1.0, check=1.0, measure=1.0)
            executor = LocalExecutor(
                "scripted:any", {}, 2, lookup=lookup, store=store, timeouts=timeouts
            )
            opened.append(executor)
            return executor

        yield open_executor
        for executor in opened:
            executor.close()
