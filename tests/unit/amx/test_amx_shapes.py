"""Names of tile workloads, bfloat16, and the reference of packed operands."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from tilewright.core.errors import UnknownNameError, WorkloadError
from tilewright.native.calibration import Peaks
from tilewright.parts.error_tracking import TrackedArray
from tilewright.targets.amx import create_bf16_target, create_int8_target
from tilewright.targets.amx.elements import BF16, INT8, bf16_bits, bf16_values
from tilewright.targets.amx.performance import certain_operations, described
from tilewright.targets.amx.problems import Bf16Problem, create_problem, unpacked
from tilewright.targets.amx.shapes import REGISTERED, parse_shape, workload_of


@pytest.mark.parametrize("name", REGISTERED)
@pytest.mark.parametrize("element", [INT8, BF16])
def test_registered_names_are_shapes(name: str, element: object) -> None:
    shape = parse_shape(name, element)  # type: ignore[arg-type]
    assert shape.name == name
    assert workload_of(shape, element).operations == shape.operations  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    ["gemm-16x16", "gemm-16x16x63", "gemm-15x16x64", "gemm-0x16x64", "gemm-16x16x64-pack",
     "conv-1x8x8x64x16-k5s1", "conv-1x8x8x32x16-k3s1", "gemm-999984x999984x64"],
)  # fmt: skip
def test_other_sizes_are_refused_with_one_sentence(name: str) -> None:
    with pytest.raises(WorkloadError) as error:
        parse_shape(name, INT8)
    assert str(error.value).count("\n") == 0


def test_an_unknown_name_suggests_one() -> None:
    with pytest.raises(UnknownNameError, match="did you mean"):
        create_int8_target().open("gem-512x512x512", {})


def test_bfloat16_rounds_to_nearest_even() -> None:
    values = np.array([1.0, 1.00390625, 1.01171875, -2.5, 3.4e38, 0.0], np.float32)
    back = bf16_values(bf16_bits(values))
    assert back.tolist()[:4] == [1.0, 1.0, 1.015625, -2.5]
    everything = np.arange(1 << 16, dtype=np.uint16)
    finite = everything[everything & 0x7F80 != 0x7F80]
    assert (bf16_bits(bf16_values(finite)) == finite).all()


@pytest.mark.parametrize("element", [INT8, BF16])
def test_packed_and_plain_operands_give_the_same(element: object) -> None:
    plain = parse_shape("gemm-16x32x64", element)  # type: ignore[arg-type]
    packed = parse_shape("gemm-16x32x64-packed", element)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    problem: Any = create_problem(packed, element)  # type: ignore[arg-type]
    given = {
        a.name: problem.draw(a, "small", rng)
        for a in packed.arguments(element)  # type: ignore[arg-type]
        if a.is_given
    }
    flat = {**given, "B": unpacked(given["B"])}
    expected = create_problem(plain, element).reference(flat)["C"]  # type: ignore[arg-type]
    got = problem.reference(given)["C"]
    if isinstance(got, TrackedArray):
        assert isinstance(expected, TrackedArray)
        assert (got.exact == expected.exact).all()
        assert (got.deviation > 0).all()
    else:
        assert (got == expected).all()


@pytest.mark.parametrize("target", [create_int8_target, create_bf16_target])
def test_the_brief_describes_every_instruction_of_the_naive_kernels(target) -> None:  # type: ignore[no-untyped-def]
    brief = target().brief()
    start = target().open("gemm-16x16x64-packed", {}).start
    for command in brief.commands:
        assert command.name in brief.isa
    used = {c.name for c in brief.commands if c.name in start}
    assert len(used) == 6
    assert all(role.count("_") >= 1 for c in brief.commands for role in c.operands)


def test_operations_that_a_folder_claims_are_believed_up_to_those_of_a_product() -> None:
    registered = workload_of(parse_shape("conv-1x8x8x64x16-k3s1", INT8), INT8)
    assert certain_operations(registered, INT8) == 8 * 8 * 16 * 9 * 64
    product = workload_of(parse_shape("gemm-32x48x64", INT8), INT8)
    claimed = replace(product, source="/some/folder", operations=10**12)
    assert certain_operations(claimed, INT8) == 32 * 48 * 64
    assert certain_operations(replace(claimed, operations=7), INT8) == 7


def test_feedback_says_which_bound_binds() -> None:
    around = Peaks(*[1e11] * len(fields(Peaks)))
    workload = workload_of(parse_shape("gemm-1024x1024x1024-packed", INT8), INT8)
    share, numbers, text = described(workload, 1e-3, 3.4e12, around, {})
    assert share == pytest.approx(1024**3 / 1e-3 / 3.4e12)
    assert "set by products" in text
    assert numbers["bytes_per_operation"] == pytest.approx(6 * 1024**2 / 2 / 1024**3)
    thin = workload_of(parse_shape("gemm-12544x256x64-packed", INT8), INT8)
    assert "set by moving" in described(thin, 1e-3, 3.4e12, around, {})[2]


def test_tile_loads_may_bind_a_kernel_before_its_products_do() -> None:
    around = Peaks(*[1e11] * len(fields(Peaks)))
    workload = workload_of(parse_shape("gemm-1024x1024x1024-packed", INT8), INT8)
    peak = 1e12  # products take 1.07 ms
    _, numbers, text = described(workload, 2e-3, peak, around, {"tile_load_bytes": 1 << 27})
    assert numbers["tile_load_bytes_per_operation"] == 1 / 16
    assert numbers["tile_loads_ns"] == pytest.approx((1 << 27) / 1e11 * 1e9)
    assert "read 134,217,728 bytes, 0.0625 per operation and 21.3 times what the arrays" in text
    assert text.endswith(
        "1,342,177 ns at the first-level cache's 100 GB/s, which limits this kernel."
    )
    _, _, fewer = described(workload, 2e-3, peak, around, {"tile_load_bytes": 1 << 26})
    assert fewer.endswith("671,089 ns at the first-level cache's 100 GB/s.")


def test_small_bfloat16_numbers_are_normal_and_of_both_signs() -> None:
    shape = parse_shape("gemm-32x32x64", BF16)
    drawn = Bf16Problem(shape).draw(shape.arguments(BF16)[0], "small", np.random.default_rng(1))
    values = bf16_values(drawn)
    assert drawn.dtype == np.uint16
    assert (abs(values) >= 1 / 128).all()
    assert (abs(values) < 2).all()
    assert 0.4 < (values < 0).mean() < 0.6
    assert len(np.unique(values)) > 400


def test_sums_of_small_bfloat16_numbers_are_rarely_exact() -> None:
    """Or the honest error of a sample would be zero, and a right kernel refused for another one."""
    shape = parse_shape("gemm-32x32x2304", BF16)
    problem, rng = Bf16Problem(shape), np.random.default_rng(1)
    left, right = (
        bf16_values(problem.draw(argument, "small", rng)).astype(np.float64)
        for argument in shape.arguments(BF16)[:2]
    )
    exact = left @ right
    sums = np.zeros(exact.shape, np.float32)
    for i in range(shape.reduction):
        sums += np.outer(left[:, i], right[i]).astype(np.float32)
    assert (sums == exact).mean() < 0.1
