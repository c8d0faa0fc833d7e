"""What the benchmark prints, with stand-ins for searches and for the library."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tilewright.core.records import Check, Measured, Verdict

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "amx.py"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_amx", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "refusal", lambda element: None)
    return module


def winner(latency: float, gain: float) -> Measured:
    return Measured(
        latency=latency, unit="ns", quantity="measured", utilization=latency / 1000,
        verdict=Verdict((Check(1, "small"),)), details={"percent_of_baseline": 100 / gain},
        versions={}, artifact_digest="", feedback="", noise=0.01,
    )  # fmt: skip


def test_lines_hold_medians_extents_and_the_fastest_call_of_the_library(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        benchmark, "one", lambda target, sizes, seed, s: (winner(400 + seed, 6 + seed), 2.5)
    )
    calls = {"plain": 900.0, "packed": 804.0}
    monkeypatch.setattr(benchmark, "library", lambda target, sizes: calls)
    options = argparse.Namespace(
        sizes=["1024x1024x1024", "784x256x1024"], runs=3, seconds=1.0, target="amx-int8"
    )
    assert benchmark.measure(options) == 0
    head, first, second, naive, library = capsys.readouterr().out.splitlines()
    assert "3 runs" in head
    assert "8.00x (7.00..9.00) over naive, 40.2% (40.1%..40.3%) of the peak" in first
    assert "2.5 evaluations/s, 2.00x the library (packed)" in second
    assert naive == "geometric mean of 1: 8.00x over naive"
    assert library == "geometric mean of 1: 2.00x the library"


def test_without_pytorch_it_says_so(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark, "one", lambda *_: (winner(400, 6), 2.5))
    monkeypatch.setattr(benchmark, "library", lambda *_: {})
    options = argparse.Namespace(sizes=["64x64x64"], runs=1, seconds=1.0, target="amx-bf16")
    assert benchmark.measure(options) == 0
    assert "PyTorch is not installed" in capsys.readouterr().out
