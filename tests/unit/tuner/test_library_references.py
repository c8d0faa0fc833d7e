"""Which library is timed beside a workload. Nothing is timed here, and torch need not be there."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewright.tuner.benchmark_set import benchmark_workload
from tilewright.tuner.tvm.references import (
    missing_library,
    reference_call,
    reference_kind,
    reference_name,
    wait_for_gpu,
)


class Torch(ModuleType):
    """As much of torch as a reference uses; tensors are arrays that note where they went."""

    def __init__(self) -> None:
        super().__init__("torch")
        self.waits = 0
        self.backends = SimpleNamespace(
            cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True)),
            cudnn=SimpleNamespace(allow_tf32=True, benchmark=False),
        )
        self.cuda = SimpleNamespace(synchronize=self._wait)

    def _wait(self) -> None:
        self.waits += 1

    def from_numpy(self, array: Any) -> Any:
        return SimpleNamespace(cuda=lambda: ("on the GPU", array))

    def matmul(self, a: Any, b: Any) -> Any:
        assert (a[0], b[0]) == ("on the GPU", "on the GPU")
        return a[1] @ b[1]


@pytest.mark.parametrize(
    ("identifier", "gpu", "name"),
    [
        ("M0", False, "numpy (BLAS)"),
        ("R1", False, "numpy (BLAS)"),
        ("R5", False, "torch"),
        ("M0", True, "torch (cuBLAS)"),
        ("R1", True, "torch (cuDNN)"),
        ("R0", True, "torch (cuDNN)"),
    ],
)
def test_the_library_of_a_workload_is_named_or_missed_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, identifier: str, gpu: bool, name: str
) -> None:
    workload = benchmark_workload(identifier)
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: object())
    kind = reference_kind(workload, gpu)
    assert kind is not None
    assert reference_name(kind) == name
    assert missing_library(workload, gpu) is None
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None)
    if name == "numpy (BLAS)":
        assert reference_kind(workload, gpu) == kind
        return
    assert reference_kind(workload, gpu) is None
    sentence = missing_library(workload, gpu)
    assert (
        sentence
        == f"{name} is not timed for comparison, because torch is not installed: pip install "
        f"torch"
    )


def test_cublas_computes_in_full_precision_and_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = Torch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: object())
    kind = reference_kind(benchmark_workload("M0"), gpu=True)
    assert kind is not None
    a, b = np.full((2, 3), 2.0, np.float32), np.ones((3, 2), np.float32)
    assert (reference_call(kind, [a, b])() == 6.0).all()
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32
    wait_for_gpu(kind)
    assert torch.waits == 1
