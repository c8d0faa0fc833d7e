"""What a GPU does at best: measured on the emulated one, kept, and used to judge latencies."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Argument, Failed, Workload
from tilewright.targets.cuda import create_target
from tilewright.targets.cuda.device import peaks as module
from tilewright.targets.cuda.device.gpus import find_gpu
from tilewright.targets.cuda.device.peaks import Peaks, measured_peaks, nominal
from tilewright.targets.cuda.device.performance import describe, too_fast
from tilewright.targets.cuda.device.process import DeviceFacts
from tilewright.targets.cuda.nvcc import find_nvcc
from tilewright.targets.cuda.occupancy import architectures

FACTS = DeviceFacts(100, 1_000_000, 1 << 20, 1_000_000, 4000, 1 << 34)
PEAKS = Peaks(1e12, 1e13, 5e13, 1e14, "measured")
N = 1 << 10
PRODUCT = Workload(
    "product",
    "cuda",
    (
        Argument("A", (N, N), "float32", "input"),
        Argument("B", (N, N), "float32", "input"),
        Argument("C", (N, N), "float32", "output"),
    ),
    operations=N**3,
    source="gemm-1024x1024x1024",
)


@pytest.fixture
def cache(gpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(module, "CALL_S", 1e-3)  # the rates of the emulated GPU mean nothing
    measured_peaks.cache_clear()
    return tmp_path / "tilewright"


def found() -> Peaks | None:
    gpu = find_gpu()
    assert gpu is not None
    return measured_peaks(gpu, find_nvcc(), "sm_90")


def test_peaks_are_measured_once_and_kept(cache: Path) -> None:
    first = found()
    assert first is not None
    assert first.quantity == "measured"
    rates = (first.bytes_per_s, first.float32_per_s, first.tf32_per_s, first.bf16_per_s)
    assert min(rates) > 0
    (file,) = cache.glob("gpu-peaks-*.json")
    stored = json.loads(file.read_text())
    file.write_text(json.dumps({**stored, "bytes_per_s": 7.0}))
    measured_peaks.cache_clear()
    again = found()
    assert again == replace(first, bytes_per_s=7.0)


@pytest.mark.parametrize("text", ["", "[]", '{"bytes_per_s": 1}', "NaN", "negative"])
def test_kept_peaks_that_are_no_rates_are_measured_again(
    text: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = {r.name: 3.0 for r in module._RATES}
    monkeypatch.setattr(module, "_measured", lambda compiler, source: right)
    assert found() is not None
    (file,) = cache.glob("gpu-peaks-*.json")
    wrong = {
        "NaN": {**right, "tf32_per_s": float("nan")},
        "negative": {**right, "tf32_per_s": -1.0},
    }
    file.write_text(json.dumps(wrong[text]) if text in wrong else text)
    measured_peaks.cache_clear()
    assert found() == Peaks(3.0, 3.0, 3.0, 3.0, "measured")


def test_other_drivers_have_peaks_of_their_own(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = iter([1.0, 2.0])

    def measured(compiler: object, source: str) -> dict[str, float]:
        rate = next(rates)
        return {r.name: rate for r in module._RATES}

    monkeypatch.setattr(module, "_measured", measured)
    here = find_gpu()
    assert here is not None
    assert found() == Peaks(1.0, 1.0, 1.0, 1.0, "measured")
    newer = measured_peaks(replace(here, driver="9.9"), find_nvcc(), "sm_90")
    assert newer == Peaks(2.0, 2.0, 2.0, 2.0, "measured")


def test_architectures_without_tf32_have_no_peak_of_it(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    def measured(compiler: object, source: str) -> dict[str, float]:
        asked.append(source.splitlines()[0])
        return {"bytes_per_s": 1.0, "float32_per_s": 2.0}

    monkeypatch.setattr(module, "_measured", measured)
    here = find_gpu()
    assert here is not None
    old = measured_peaks(here, find_nvcc(), "sm_75")
    assert old == Peaks(1.0, 2.0, 0.0, 0.0, "measured")
    assert asked == ["#define TENSOR_CORES 0"]


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_nvcc_compiles_what_measures_peaks(architecture: str) -> None:
    try:
        nvcc = find_nvcc()
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    text = module.SOURCE.read_text()
    source = f"#define TENSOR_CORES {int(architecture != 'sm_75')}\n{text}"
    call = module.call(module._arguments(1), module._SIZES)
    compiled = nvcc.compile(source, call, architecture, 120.0)
    assert not isinstance(compiled, Failed), compiled.log
    assert len(compiled.functions) == (2 if architecture == "sm_75" else 4)
    assert all(f.spilled_bytes == 0 for f in compiled.functions)


def test_results_say_which_peaks_their_shares_refer_to() -> None:
    _, numbers, measured, _ = describe(PRODUCT, 1e-3, PEAKS, "")
    assert (
        "10.7% of the measured peak of 20,000 GFLOP/s of float32 without tensor cores" in measured
    )
    assert numbers["bound_ns"] == pytest.approx(N**3 / 1e13 * 1e9)
    assert "No peak was measured" not in measured
    assert describe(PRODUCT, 1e3, PEAKS, "")[2].startswith("0.00215 GFLOP/s, ")
    promised = nominal(FACTS, architectures()["sm_90"])
    assert "nominal peak" in describe(PRODUCT, 1e-3, promised, "")[2]
    assert "No peak was measured" in describe(PRODUCT, 1e-3, promised, "")[2]
    unknown = nominal(replace(FACTS, clock_khz=0, memory_khz=0), architectures()["sm_90"])
    assert "no bound is known" in describe(PRODUCT, 1e-3, unknown, "")[2]


def test_shares_refer_to_the_kind_of_multiplication_that_is_accepted() -> None:
    share, numbers, text, _ = describe(PRODUCT, 1e-3, PEAKS, "tf32-like")
    assert share == pytest.approx(N**3 / 1e-3 / 5e13)
    assert "tf32 on tensor cores" in text
    assert numbers["bound_ns"] == pytest.approx(3 * N * N * 4 / 1e12 * 1e9)
    share, numbers, text, _ = describe(
        PRODUCT, 1e-3, nominal(FACTS, architectures()["sm_90"]), "tf32-like"
    )
    assert share == 0.0
    assert "GB/s" in text


def test_results_beyond_the_peak_are_held_back() -> None:
    quick_s = N**3 / (2.6 * PEAKS.bf16_per_s)
    refuted, _ = too_fast(PRODUCT, quick_s, PEAKS, FACTS, needed=True)
    assert refuted is not None
    assert refuted.kind == "invalid"
    assert "2.6 times" in refuted.log
    assert too_fast(PRODUCT, 2 * quick_s, PEAKS, FACTS, needed=True) == (None, ())
    folder = replace(PRODUCT, source="/a/folder")
    unconfirmed, _ = too_fast(folder, quick_s, PEAKS, FACTS, needed=True)
    assert unconfirmed is not None
    assert unconfirmed.kind == "unconfirmed"
    refuted, warnings = too_fast(PRODUCT, quick_s, PEAKS, FACTS, needed=False)
    assert refuted is None
    assert "2.6 times" in warnings[0]
    promised = replace(PEAKS, quantity="nominal")
    assert too_fast(PRODUCT, quick_s, promised, FACTS, needed=True) == (None, ())


def test_outputs_are_not_written_faster_than_memory_takes_them() -> None:
    large = replace(
        PRODUCT, operations=1, arguments=(Argument("Y", (1 << 28,), "float32", "output"),)
    )
    refuted, _ = too_fast(large, 5e-4, PEAKS, FACTS, needed=True)
    assert refuted is not None
    assert refuted.kind == "invalid"
    assert too_fast(large, 1e-3, PEAKS, FACTS, needed=True) == (None, ())


def test_the_doctor_names_the_peaks(cache: Path) -> None:
    name, works, words = create_target().doctor()[-1]
    assert (name, works) == ("GPU peaks", True)
    assert "GB/s copied" in words
    assert "tf32 on tensor cores" in words
