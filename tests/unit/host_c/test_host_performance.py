"""What a latency is worth: shares of the measured peaks, and the bound that binds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.core.records import Argument
from tilewright.native import roofline
from tilewright.native.calibration import Peaks
from tilewright.native.machine import Processor
from tilewright.targets.host_c.performance import describe, floor_ns, products_per_s
from tilewright.targets.host_c.shapes import parse_shape

ONE = Peaks(1e9, 8e9, 4e9, 4e9, 2e9, 1e9)
TWO = Peaks(2e9, 16e9, 8e9, 8e9, 4e9, 1e9)


@pytest.fixture(autouse=True)
def small_core(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Processor("a core", frozenset(), 1 << 12, 1 << 14, 1 << 16)
    monkeypatch.setattr(roofline, "processor", lambda: core)


@pytest.mark.parametrize(
    ("name", "peaks", "threads", "binds", "bound_ns"),
    [
        ("gemm-32x32x32", ONE, 1, "multiply-adds", 32768),
        ("gemm-32x32x32", TWO, 2, "multiply-adds", 16384),
        ("softmax-8x256", ONE, 1, "multiply-adds", 6144),
        ("rmsnorm-8x256", ONE, 1, "from the third-level cache", 17408 / 2),
        ("rmsnorm-8x256", TWO, 2, "from the second-level cache", 17408 / 8),
        ("rmsnorm-64x256", ONE, 1, "from memory", 132096),
    ],
)
def test_the_bound_that_binds_is_named(
    name: str, peaks: Peaks, threads: int, binds: str, bound_ns: float
) -> None:
    workload = parse_shape(name).workload("host-c")
    latency_s = 1e-3
    share, numbers, words = describe(workload, latency_s, peaks, threads)
    assert share == workload.operations / latency_s / peaks.products_per_s
    assert binds in words
    assert numbers["bound_ns"] == pytest.approx(bound_ns)
    assert numbers["gflop_per_s"] == pytest.approx(2e-9 * workload.operations / latency_s)
    assert f"{share:.1%} of the measured peak" in words
    assert f"{latency_s * 1e9 / bound_ns:.1f} times" in words


def test_bytes_per_operation_count_both_halves_of_a_multiply_add() -> None:
    workload = parse_shape("gemm-32x32x32").workload("host-c")
    _, numbers, words = describe(workload, 1e-3, ONE)
    assert numbers["bytes_per_operation"] == 3 * 4096 / (2 * 32**3)
    assert "0.188 bytes per operation" in words


def test_more_threads_lower_the_floor() -> None:
    workload = parse_shape("softmax-32x32").workload("host-c")
    assert floor_ns(workload, TWO)[0] == floor_ns(workload, ONE)[0] / 2
    assert floor_ns(workload, ONE)[0] == pytest.approx(4096 / 4 / 1.5)


@pytest.mark.parametrize(
    ("inputs", "times"),
    [
        (("int8", "int8"), 4), (("uint8", "int8", "int16"), 4), (("int16",), 2), (("int32",), 1),
        (("int64", "uint64"), 1), (("int8", "float32"), 1), (("float32", "float32"), 1),
        (("float64",), 1), (("float16",), 1), ((), 1),
    ],
)  # fmt: skip
def test_whole_numbers_of_few_bits_have_a_higher_peak(inputs: tuple[str, ...], times: int) -> None:
    gemm = parse_shape("gemm-32x32x32").workload("host-c")
    out = next(a for a in gemm.arguments if a.role == "output")
    given = [Argument(f"x{i}", (8, 8), kind, "input") for i, kind in enumerate(inputs)]
    workload = replace(gemm, arguments=(*given, out))
    assert products_per_s(workload, ONE) == times * ONE.products_per_s
    share, _, words = describe(workload, 1e-3, ONE)
    assert share == workload.operations / 1e-3 / (times * ONE.products_per_s)
    assert f"peak of {2 * times:.1f} GFLOP/s" in words


@pytest.mark.parametrize(
    ("inputs", "times", "said"),
    [
        (("float32", "float32"), 1, "float32 multiply-adds"),
        (("uint8", "float32"), 4, "multiply-adds of 8-bit numbers, four in each 32-bit lane"),
        (("float32", "int16"), 2, "multiply-adds of 16-bit numbers, two in each 32-bit lane"),
        (("int8", "int8"), 4, "multiply-adds of 8-bit numbers, four in each 32-bit lane"),
        (("int32", "float32"), 1, "float32 multiply-adds"),
    ],
)
def test_the_bound_names_its_arithmetic_and_holds_for_the_fastest(
    inputs: tuple[str, ...], times: int, said: str
) -> None:
    """A kernel may compute sums of bytes and floats by dot products of bytes."""
    gemm = parse_shape("gemm-32x32x32").workload("host-c")
    out = next(a for a in gemm.arguments if a.role == "output")
    given = [Argument(f"x{i}", (8, 8), kind, "input") for i, kind in enumerate(inputs)]
    workload = replace(gemm, arguments=(*given, out))
    _, numbers, words = describe(workload, 1e-3, ONE)
    assert numbers["bound_ns"] == pytest.approx(32**3 / times)
    assert f"which is set by {said}" in words
    as_floats = f"As float32 multiply-adds, they take at least {32**3:,} ns."
    assert (as_floats in words) == (times > 1 and "float32" in inputs)
