"""What the benchmark prints, with stand-ins for searches and for the baselines."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tilewright.targets.amx.elements import INT8
from tilewright.targets.amx.shapes import REGISTERED, parse_shape
from tilewright.timing.statistics import mean_of_medians_interval, median_interval

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks"
PACKED, SQUARE = "gemm-784x256x1024-packed", "gemm-1024x1024x1024-packed"
CONVOLUTION = "conv-4x14x14x256x256-k3s1"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    spec = importlib.util.spec_from_file_location("bench_amx", FOLDER / "amx.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    calls = {"plain": 900.0, "packed": 804.0}
    monkeypatch.setattr(module, "refusal", lambda element: None)
    monkeypatch.setattr(module, "search", lambda task, seed, s: winner(400.0 + seed, 6.0 + seed))
    monkeypatch.setattr(module, "compiler_alone", lambda target, name, seed: 2.0)
    monkeypatch.setattr(module, "library", lambda *arguments: calls)
    monkeypatch.setattr(module, "repeatability", lambda task, source: (0.02, 0.01))
    return module


def winner(latency: float, gain: float) -> dict[str, Any]:
    return {
        "source": "", "speedup": gain, "latency_ns": latency, "share": latency / 1000,
        "noise": 0.01, "rate": 2.5, "tera_operations_per_s": 3.0,
    }  # fmt: skip


def measured(
    benchmark: ModuleType,
    capsys: pytest.CaptureFixture[str],
    workloads: Sequence[str],
    results: Path | None = None,
    target: str = "amx-int8",
) -> list[str]:
    options = argparse.Namespace(
        workloads=workloads, runs=3, seconds=1.0, target=target, results=results
    )
    assert benchmark.measure(options) == 0
    return capsys.readouterr().out.splitlines()


def test_rows_hold_medians_with_intervals_and_the_fastest_call_of_the_library(
    benchmark: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = measured(benchmark, capsys, [PACKED, SQUARE, CONVOLUTION])
    assert "3 runs" in lines[1]
    row = (
        "8.00x (7.00..9.00) | 16.00x (14.00..18.00) | 2.00x (2.00..2.00) packed | 3.00 | "
        "40.2% (40.1%..40.3%) | 2.50 | 1.0% | 2.0%, 1.0% |"
    )
    assert lines[5:8] == [f"| {name} | {row}" for name in (PACKED, SQUARE, CONVOLUTION)]
    mean = "8.00x (7.00..9.00) | 16.00x (14.00..18.00) | 2.00x (2.00..2.00) | | | | | |"
    assert lines[8:] == [
        f"| geometric mean of 1 (ResNet-50, packed) | {mean}",
        f"| geometric mean of 1 (3x3 convolutions) | {mean}",
    ]
    assert {line.count(" |") for line in lines[5:]} == {9}


def test_without_a_baseline_its_column_is_empty_and_it_is_asked_again(
    benchmark: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    asked = []
    monkeypatch.setattr(benchmark, "library", lambda *_: asked.append("library") or {})
    monkeypatch.setattr(benchmark, "compiler_alone", lambda *_: None)
    monkeypatch.setattr(benchmark, "pytorch", lambda: "none")
    kept = tmp_path / "kept.json"
    first = measured(benchmark, capsys, ["gemm-64x64x64"], kept, "amx-bf16")
    assert first[0].endswith("library: none")
    assert "| 8.00x (7.00..9.00) | - | - | 3.00 |" in first[5]
    assert "| geometric mean of 1 | 8.00x (7.00..9.00) | - | - |" in first[6]
    monkeypatch.setattr(benchmark, "search", lambda *_: pytest.fail("a kept search is repeated"))
    assert measured(benchmark, capsys, ["gemm-64x64x64"], kept, "amx-bf16") == first
    assert len(asked) == 6


def test_the_default_workloads_are_registered(benchmark: ModuleType) -> None:
    assert set(benchmark.WORKLOADS) <= set(REGISTERED)
    assert len(benchmark.RESNET) == 6
    assert {name for name in REGISTERED if name.startswith("conv")} == set(benchmark.CONVOLUTIONS)
    assert all(parse_shape(name, INT8).name == name for name in benchmark.WORKLOADS)


def test_an_interval_of_a_geometric_mean_is_that_of_runs_within_workloads() -> None:
    rng = np.random.default_rng(3)
    near, far = rng.normal(0.0, 0.01, 7), rng.normal(5.0, 0.01, 7)
    low, high = mean_of_medians_interval([near, far], 0.95, 1)
    assert low < (np.median(near) + np.median(far)) / 2 < high
    assert high - low < 0.05  # how far the two lie apart is no part of it
    assert median_interval(near, 0.95, 1) == mean_of_medians_interval([near], 0.95, 1)
