"""How often a worker of a cluster reports to its scheduler."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

pytest.importorskip("distributed", reason="needs dask.distributed: install the extra cluster")

import distributed

from tilewright.cluster.dask_processes import HEARTBEAT_S, create_worker


class Worker:
    """Like dask's: each report sets the interval that the scheduler answers."""

    answered_ms: ClassVar[float]

    def __init__(self, address: str, **_: Any) -> None:
        self.reports = 0
        self.periodic_callbacks = {"heartbeat": SimpleNamespace(callback_time=1000.0)}

    async def heartbeat(self) -> None:
        self.reports += 1
        self.periodic_callbacks["heartbeat"].callback_time = self.answered_ms


@pytest.mark.parametrize(
    ("answered_ms", "wanted_ms"), [(500.0, 1000 * HEARTBEAT_S), (6000.0, 6000.0)]
)
def test_a_worker_of_a_small_cluster_reports_rarely(
    answered_ms: float, wanted_ms: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Worker, "answered_ms", answered_ms, raising=False)
    monkeypatch.setattr(distributed, "Worker", Worker)
    monkeypatch.setattr("tilewright.cluster.dask_processes.read_only_plain_messages", id)
    worker: Any = create_worker("tcp://127.0.0.1:1")
    asyncio.run(worker.heartbeat())
    assert worker.reports == 1
    assert worker.periodic_callbacks["heartbeat"].callback_time == wanted_ms
