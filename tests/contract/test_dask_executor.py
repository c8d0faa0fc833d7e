"""`DaskExecutor` keeps the contract of executors, on a cluster of two worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("distributed", reason="needs dask.distributed: install the extra cluster")

from tilewright.cluster.address import Place, parse_address
from tilewright.cluster.executor import DaskExecutor
from tilewright.cluster.local_workers import LocalCluster
from tilewright.cluster.opening import open_executor as open_on
from tilewright.cluster.resources import offered
from tilewright.core import plugins
from tilewright.core.records import Outcome
from tilewright.core.tasks import open_task
from tilewright.evaluation.timeouts import StageTimeouts
from tilewright.testing import scripted
from tilewright.testing.executor import ExecutorContract, OpenExecutor

TIMEOUTS = StageTimeouts(build=1.0, check=1.0, measure=1.0)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Its workers find the scripted target where their evaluating processes do."""
    folder = tmp_path_factory.mktemp("plugins")
    scripted.write_entry_point(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=":")
        patch.syspath_prepend(str(folder))
        plugins._installed.cache_clear()
        with LocalCluster(2, offered()) as started:
            yield started


class TestDaskExecutor(ExecutorContract):
    @pytest.fixture
    def open_executor(self, cluster: LocalCluster) -> Iterator[OpenExecutor]:
        opened: list[DaskExecutor] = []

        def open_executor(
            lookup: Callable[[str], Outcome | None] | None = None,
            store: Callable[[str, Outcome], None] | None = None,
        ) -> DaskExecutor:
            executor = open_on(
                open_task("scripted:any", {}),
                {},
                Place(parse_address(cluster.address)),
                2,
                lookup=lookup,
                store=store,
                timeouts=TIMEOUTS,
            )
            opened.append(executor)
            return executor

        yield open_executor
        for executor in opened:
            executor.close()
