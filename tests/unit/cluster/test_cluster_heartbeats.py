"""How often a worker of a cluster reports to its scheduler."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from tilewright.cluster.local_workers import HEARTBEAT_S, with_rare_heartbeats


class Worker:
    """Like dask's: each report sets the interval that the scheduler answers."""

    def __init__(self, answered_ms: float) -> None:
        self.answered_ms, self.reports = answered_ms, 0
        self.periodic_callbacks = {"heartbeat": SimpleNamespace(callback_time=1000.0)}

    async def heartbeat(self) -> None:
        self.reports += 1
        self.periodic_callbacks["heartbeat"].callback_time = self.answered_ms


@pytest.mark.parametrize(
    ("answered_ms", "wanted_ms"), [(500.0, 1000 * HEARTBEAT_S), (6000.0, 6000.0)]
)
def test_a_worker_of_a_small_cluster_reports_rarely(answered_ms: float, wanted_ms: float) -> None:
    worker = with_rare_heartbeats(Worker)(answered_ms)
    asyncio.run(worker.heartbeat())
    assert worker.reports == 1
    assert worker.periodic_callbacks["heartbeat"].callback_time == wanted_ms
