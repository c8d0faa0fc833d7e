"""A search goes on if the clock of the scheduler's machine is set back while its streams wait.

The scheduler is started with `dask scheduler`, so it depends on the clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import cluster_digits
import pytest

pytest.importorskip("distributed", reason="needs dask.distributed: install the extra cluster")

from disturbed_cluster import DisturbedCluster

from tilewright.cluster import silence
from tilewright.cluster.address import Place, parse_address
from tilewright.cluster.opening import open_executor
from tilewright.cluster.resources import stamp
from tilewright.core import plugins
from tilewright.core.records import Candidate, EvaluationRequest, Outcome
from tilewright.core.tasks import open_task
from tilewright.testing.toy import toy_outcome

SLOW_STREAMS = """
from distributed.batched import BatchedSend
def slow(self, interval, begin=BatchedSend.__init__, **more):
    begin(self, "2 s", **more)
BatchedSend.__init__ = slow
"""
"""Loaded by the scheduler: each of its streams waits for two seconds after a batch."""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DisturbedCluster]:
    cluster_digits.write_entry_points(tmp_path)
    slow = tmp_path / "slow_streams.py"
    slow.write_text(SLOW_STREAMS)
    monkeypatch.setenv("PYTHONPATH", cluster_digits.import_path(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins._installed.cache_clear()
    versions = {"tilewright": version("tilewright"), "toy": "1"}
    offers = {"cpu": {}, stamp(cluster_digits.create_target(), versions): versions}
    with closing(DisturbedCluster(offers, tmp_path, preload=slow)) as started:
        yield started


@pytest.mark.slow
def test_streams_that_are_silent_for_hours_are_replaced(
    cluster: DisturbedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search waited for these hours."""
    monkeypatch.setattr(silence, "QUIET_S", 3.0)
    monkeypatch.setattr(silence, "ASK_EVERY_S", 2.0)
    task, place = open_task("toy:digits", {}), Place(parse_address(cluster.address))
    sources = ["toy " + " ".join(str(n)) for n in range(10_001, 10_031)]
    cluster.wait_for_scheduler()
    begun_s, limit_s = time.monotonic(), 150.0

    def set_back(position: int, outcome: Outcome, took_s: float, cached: bool) -> None:
        cluster.set_clock(-6 * 3600.0)  # the stream that brought this outcome waits now

    def look() -> None:
        cluster.workers.look()
        assert time.monotonic() - begun_s < limit_s, "the search stands still"

    with closing(open_executor(task, {}, place, 2)) as executor:
        outcomes = executor.evaluate(
            [EvaluationRequest(Candidate(source)) for source in sources],
            on_outcome=set_back,
            checkpoint=look,
        )
    assert outcomes == [toy_outcome(source) for source in sources]
