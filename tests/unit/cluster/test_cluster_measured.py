"""Which kernels of a cluster are measured on one machine only, and which machines may do it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("distributed", reason="needs dask.distributed: install the extra cluster")

from tilewright.cluster.opening import measures
from tilewright.cluster.resources import resource_of
from tilewright.core.records import LatencyKind, Quantity
from tilewright.targets.cuda import target as cuda
from tilewright.targets.cuda.device.gpus import Gpu


@pytest.mark.parametrize(
    ("quantity", "task", "expected"),
    [
        ("measured", {}, True),
        ("measured", {"untimed": None}, True),
        ("measured", {"untimed": "no GPU was found"}, False),  # kernels are only checked
        ("simulated", {}, False),
        ("modelled", {}, False),
    ],
)
def test_all_measurements_of_a_run_are_made_on_one_machine(
    quantity: Quantity, task: dict[str, Any], expected: bool
) -> None:
    """Kernels of a GPU were measured on two machines, whose latencies are never equal, so the run
    ended because the machines disagreed."""
    brief = SimpleNamespace(latency=LatencyKind(quantity, "us"))
    opened: Any = SimpleNamespace(
        task=SimpleNamespace(**task), target=SimpleNamespace(brief=lambda: brief)
    )
    assert measures(opened) is expected


def test_kernels_of_a_gpu_are_measured_on_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu("NVIDIA H100", "GPU-1", "sm_90", 81559, "550.1")
    for found, resource in ((gpu, "gpu:NVIDIA H100"), (None, "cpu")):
        monkeypatch.setattr(cuda, "find_gpu", lambda found=found: found)
        assert resource_of(cuda.CudaTarget()) == resource
