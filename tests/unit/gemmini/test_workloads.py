"""Workload names, limits and starting kernels."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tilewright.core.errors import ConfigurationError, UnknownNameError, WorkloadError
from tilewright.targets.gemmini import create_target
from tilewright.targets.gemmini.convolution import Convolution, parse_convolution
from tilewright.targets.gemmini.gemm import Gemm, parse_gemm
from tilewright.targets.gemmini.naive import naive_gemm
from tilewright.targets.gemmini.workloads import REGISTERED, parse_workload

INT8 = create_target().instance


@pytest.mark.parametrize("name", REGISTERED)
def test_registered_names_open(name: str) -> None:
    task = create_target().open(name, {})
    assert task.workload.name == f"gemmini:{name}"
    assert task.workload.source == name


def test_arguments_and_operations() -> None:
    workload = create_target().open("gemm-7x8x9", {}).workload
    shapes = [(a.name, a.shape, a.dtype, a.role) for a in workload.arguments]
    assert shapes == [
        ("A", (7, 9), "int8", "input"),
        ("B", (9, 8), "int8", "input"),
        ("C", (7, 8), "int8", "output"),
    ]
    assert workload.operations == 7 * 8 * 9


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gemm-0x5x5", "has the size 0"),
        ("gemm-5x-3x5", "has the size -3"),
        ("gemm-512x512", "is malformed"),
        ("gemm-512x512x", "is malformed"),
        ("gemm-1.5x2x2", "is malformed"),
        ("gemm", "is malformed"),
        ("gemm-8x8x8x8", "is malformed"),
        ("gemm-" + "9" * 5000 + "x1x1", "MiB of arrays"),
        ("gemm-100000x100000x16", "MiB of arrays"),
        ("gemm-16x16x65537", "may overflow"),
        ("conv", "is malformed"),
        ("conv-4x56x56x64x64", "is malformed"),
        ("conv-4x56x56x64-k3s1", "is malformed"),
        ("conv-4x56x56x64x64-k3s1p", "is malformed"),
        ("conv-4x56x56x64x0-k3s1", "has the size 0"),
        ("conv-4x56x56x64x64-k3s0", "has the size 0"),
        ("conv-1x4x4x8x8-k7s1p0", "a kernel that fits"),
        ("conv-1x9x9x8000x8-k3s1", "may overflow"),
        ("conv-64x512x512x64x64-k3s1", "MiB of arrays"),
    ],
)
def test_a_malformed_shape_is_one_sentence(spec: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message) as raised:
        parse_workload(spec, INT8)
    assert str(raised.value).endswith(".")
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 6000


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'gemm-16x24x32'"):
        parse_workload("gem-16x24x32", INT8)


sizes = st.integers(1, 300)


@given(sizes, sizes, sizes)
def test_names_round_trip(m: int, n: int, k: int) -> None:
    assert parse_gemm(Gemm(m, n, k).name, INT8) == Gemm(m, n, k)


small = st.integers(1, 12)


@given(small, sizes, sizes, small, small, st.integers(1, 7), small, st.integers(0, 4))
def test_convolution_names_round_trip(
    n: int, h: int, w: int, c: int, k: int, size: int, stride: int, padding: int
) -> None:
    assume(min(h, w) + 2 * padding >= size)
    conv = Convolution(n, h, w, c, k, size, stride, padding)
    assert parse_convolution(conv.name, INT8) == conv


def test_padding_left_out_keeps_the_size_at_stride_1() -> None:
    conv = parse_convolution("conv-4x56x56x64x128-k3s1", INT8)
    assert conv.input_shape == (4, 58, 58, 64)
    assert conv.output_shape == (4, 56, 56, 128)
    assert parse_convolution("conv-4x56x56x64x128-k3s1p1", INT8) == conv
    assert parse_convolution("conv-1x9x8x3x4-k3s2p0", INT8).output_shape == (1, 4, 3, 4)


@given(sizes, sizes, sizes)
def test_naive_declares_what_it_uses(m: int, n: int, k: int) -> None:
    """A ragged size has its minimum declared once, an even one is a literal."""
    source = naive_gemm(Gemm(m, n, k), INT8)
    for name, size, tile in (("rows", m, 16), ("cols", n, 64), ("depth", k, 16), ("jcols", n, 16)):
        ragged = size > tile and size % tile != 0
        assert len(re.findall(rf"const int {name} =", source)) == ragged
        assert (re.search(rf"\b{name}\b", source) is not None) == ragged


def test_naive_of_even_sizes() -> None:
    expected = """\
void kernel(const int8_t A[32][32], const int8_t B[32][64], int8_t C[32][64]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(64);
  config_ld(32, 1.0f, 16, 0);  // A
  config_ld(64, 1.0f, 16, 1);  // B
  config_ld(0, 1.0f, 16, 2);  // zeros
  for (int i = 0; i < 32; i += 16) {
    for (int j = 0; j < 64; j += 64) {
      // clear the accumulator tile
      mvin3(0, ACC(0), 64, 16);
      for (int k = 0; k < 32; k += 16) {
        // operands of this step
        mvin(&A[i][k], SPAD(0), 16, 16);
        mvin2(&B[k][j], SPAD(SPAD_BANK_ROWS), 64, 16);
        for (int jj = 0; jj < 64; jj += 16) {
          preload(SPAD(SPAD_BANK_ROWS + jj), ACC(jj) | ACCUMULATE, 16, 16, 16, 16);
          compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
        }
      }
      // store the tile, saturated to int8
      mvout(&C[i][j], ACC(0), 64, 16);
    }
  }
  fence();
}
"""
    assert naive_gemm(Gemm(32, 64, 32), INT8) == expected


def test_a_task_begins_with_its_naive_baseline() -> None:
    for name in ("gemm-16x16x16", "conv-1x8x8x16x16-k3s1"):
        task = create_target().open(name, {})
        assert list(task.baselines) == ["naive", "library", "tuned", "fsm"]
        assert task.start == task.baselines["naive"]


def test_a_tuned_schedule_that_does_not_fit_is_left_out() -> None:
    target = create_target()
    assert list(target.open("gemm-64x16x5000", {}).baselines) == ["naive", "library", "fsm"]
    # 49 positions of 256 channels: the weights of one filter block take more than two banks
    assert list(target.open("conv-1x9x9x256x16-k7s1", {}).baselines) == ["naive", "library", "fsm"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"checks": 2}, "too few"),
        ({"checks": "3"}, "whole number"),
        ({"compile_timeout_s": 0}, "positive number"),
        ({"simulation_timeout_s": float("nan")}, "positive number"),
        ({"input_seed": 1.5}, "whole number"),
    ],
)
def test_impossible_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        create_target().open("gemm-16x16x16", settings)


def test_other_settings_belong_to_others() -> None:
    create_target().open("gemm-16x16x16", {"beam": 6, "seed": 3})


def test_the_fingerprint_follows_what_decides_a_verdict() -> None:
    target = create_target()
    base = target.open("gemm-16x16x16", {"input_seed": 1}).fingerprint
    assert target.open("gemm-16x16x16", {"input_seed": 1, "beam": 9}).fingerprint == base
    assert target.open("gemm-16x16x16", {"input_seed": 2}).fingerprint != base
    assert target.open("gemm-16x16x16", {"input_seed": 1, "checks": 4}).fingerprint != base
    assert (
        target.open(
            "gemm-16x16x16", {"input_seed": 1, "target_settings": {"ordering": "timing"}}
        ).fingerprint
        != base
    )
