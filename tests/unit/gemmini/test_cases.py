"""Inputs, references and comparison."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.errors import WorkloadError
from tilewright.core.records import Argument, Tolerance, Workload
from tilewright.parts import case as case_module
from tilewright.parts.cases import Cases
from tilewright.parts.error_tracking import TrackedArray
from tilewright.parts.float_error import Error, error_between
from tilewright.parts.inputs import FLOAT_DISTRIBUTIONS, LATER, VERSION, Array, distributions, draw
from tilewright.parts.problem import FormulaProblem
from tilewright.targets.gemmini import create_target
from tilewright.targets.gemmini.convolution import parse_convolution
from tilewright.targets.gemmini.gemm import Gemm
from tilewright.targets.gemmini.problem import ConvolutionProblem, GemmProblem, exact_product

INT8 = create_target().instance
SIZES = [1, 16, 64, 256, 1024, 4096]


def outputs(k: int, distribution: str) -> np.ndarray:
    gemm = Gemm(64, 64, k)
    rng = np.random.default_rng(k)
    a, b = (draw(argument, distribution, k, rng) for argument in gemm.workload(INT8).arguments[:2])
    return GemmProblem(gemm).reference({"A": a, "B": b})["C"]


@pytest.mark.parametrize("k", SIZES)
def test_small_inputs_spread_outputs_over_the_whole_range(k: int) -> None:
    """The strongest test of values: nearly none saturate, and they are all over int8."""
    c = outputs(k, "small")
    saturated = np.mean((c == 127) | (c == -128))
    assert saturated < 0.03
    assert 25 < c.std() < 70
    assert c.max() > 80
    assert c.min() < -80


@pytest.mark.parametrize("k", SIZES[1:])
def test_full_range_inputs_saturate(k: int) -> None:
    c = outputs(k, "full-range")
    assert np.mean((c == 127) | (c == -128)) > 0.9


@pytest.mark.parametrize("k", SIZES)
def test_sparse_inputs_leave_few_products(k: int) -> None:
    c = outputs(k, "sparse")
    assert np.mean(c == 0) < 0.6
    assert np.mean((c == 127) | (c == -128)) < 0.2


@pytest.mark.parametrize("distribution", FLOAT_DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "float32"])
def test_every_type_is_drawn(dtype: str, distribution: str) -> None:
    argument = Argument("X", (50, 7), dtype, "input")
    values = draw(argument, distribution, 9, np.random.default_rng(1))
    assert values.dtype == np.dtype(dtype)
    assert values.shape == (50, 7)
    assert np.unique(values).size > 2
    assert np.isfinite(values).all()


def test_extremes_reach_the_bounds() -> None:
    values = draw(Argument("X", (1000,), "int8", "input"), "extremes", 9, np.random.default_rng(1))
    assert {-128, -1, 0, 1, 127} <= set(values.tolist())


@given(st.integers(0, 2**32), st.sampled_from([1, 15, 1024, 1025, 3000]))
def test_the_product_is_exact(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.integers(-128, 128, (3, k)).astype(np.int8)
    b = rng.integers(-128, 128, (k, 4)).astype(np.int8)
    if seed % 2:
        a[:], b[:] = -128, -128
    assert (exact_product(a, b) == a.astype(np.int64) @ b.astype(np.int64)).all()


EXACT = Tolerance()


def case(tolerance: Tolerance = EXACT, dtype: str = "int8", index: int = 0) -> object:
    class Ones:
        reduction = 1
        fingerprint = ""

        def reference(self, inputs: object) -> dict[str, np.ndarray]:
            return {"C": np.arange(6, dtype=dtype).reshape(2, 3)}

    workload = Workload(
        "w", "gemmini", (Argument("C", (2, 3), dtype, "output"),), 1, tolerance=tolerance
    )
    return Cases(workload, Ones(), 0)[index]


def test_a_mismatch_is_the_first_in_row_major_order() -> None:
    got = np.array([[0, 1, 2], [9, 4, 9]], dtype=np.int8)
    text = case().mismatch({"C": got.tobytes()})
    assert text.startswith("2 of 6 elements of C differ, first at C[1][0]: got 9, expected 3")


def test_an_exact_result_is_no_mismatch() -> None:
    assert case().mismatch({"C": bytes(range(6))}) is None


def test_tolerance_scales_with_the_expected_value() -> None:
    tolerant = case(Tolerance(0.0, 0.1), "float32")
    expected = np.arange(6, dtype=np.float32)
    assert tolerant.mismatch({"C": (expected * 1.09).astype(np.float32).tobytes()}) is None
    assert tolerant.mismatch({"C": (expected * 1.11).astype(np.float32).tobytes()}) is not None


def test_all_zeros_do_not_pass_a_relative_tolerance() -> None:
    assert case(Tolerance(0.0, 0.5), "float32").mismatch({"C": bytes(24)}) is not None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_a_number_never_passes(bad: float) -> None:
    got = np.arange(6, dtype=np.float32)
    got[5] = bad
    assert case(Tolerance(1e30, 1.0), "float32").mismatch({"C": got.tobytes()}) is not None


def test_cases_differ_and_repeat() -> None:
    gemm = Gemm(8, 8, 8)

    def made(seed: int) -> list[bytes]:
        cases = Cases(gemm.workload(INT8), GemmProblem(gemm), seed)
        return [cases[i].initial[name].tobytes() for i in range(4) for name in "ABC"]

    assert made(1) == made(1)
    assert made(1) != made(2)
    assert len(set(made(1))) == 12


def test_the_values_drawn_belong_to_the_version() -> None:
    """If this fails because other values are drawn, raise `inputs.VERSION`."""
    cases = Cases(Gemm(20, 20, 100).workload(INT8), GemmProblem(Gemm(20, 20, 100)), 1)
    drawn = b"".join(cases[i].initial[name].tobytes() for i in range(4) for name in "ABC")
    assert (VERSION, hashlib.sha256(drawn).hexdigest()[:16]) == ("17", "49b143e8908b1da5")


def test_the_reference_cannot_change_what_the_kernel_receives() -> None:
    class Vandal:
        reduction = 1
        fingerprint = ""

        def reference(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            inputs["A"][:] = 0
            return {"C": np.zeros((2, 2), np.int8)}

    gemm = Gemm(2, 2, 2)
    made = Cases(gemm.workload(INT8), Vandal(), 0)[0]
    before = made.initial["A"].copy()
    assert made.expected["C"].shape == (2, 2)
    assert (made.initial["A"] == before).all()


def test_convolution_reference_equals_its_definition() -> None:
    """Against the sum written out, with a stride, a border and a bias."""
    conv = parse_convolution("conv-2x5x6x3x4-k3s2p1", INT8)
    problem = ConvolutionProblem(conv)
    case = Cases(conv.workload(INT8), problem, 1)[0]
    pixels, weights, bias = (case.initial[n].astype(int) for n in ("input", "weights", "bias"))
    for (n, y, x, o), got in np.ndenumerate(case.expected["output"]):
        window = pixels[n, 2 * y : 2 * y + 3, 2 * x : 2 * x + 3]
        assert got == np.clip(bias[o] + np.sum(window * weights[:, :, :, o]), -128, 127)


def test_distributions_of_floats_are_what_they_are_called() -> None:
    argument = Argument("A", (64, 512), "float32", "input")
    rng = np.random.default_rng(1)
    drawn = {
        name: draw(argument, name, 512, rng, leading=True).astype(np.float64)
        for name in FLOAT_DISTRIBUTIONS
    }
    assert drawn["shifted mean"].mean() == pytest.approx(1000, abs=0.1)
    assert drawn["shifted mean"].std() == pytest.approx(1, abs=0.1)
    below = drawn["shifted below"].mean(axis=1)
    factors = 10.0 ** np.round(np.log10(-below / 1000))
    assert set(factors) == {1.0, 1e3, 1e7}
    assert below / factors == pytest.approx(-1000, abs=0.3)
    assert (drawn["constant rows"] == drawn["constant rows"][:, :1]).all()
    assert len(np.unique(drawn["constant rows"])) == 64
    sizes = np.abs(drawn["mixed scales"])
    assert (sizes.max(axis=1) / sizes.min(axis=1) > 1e10).all()
    assert 0.5 <= drawn["positive"].min() < drawn["positive"].max() <= 1.5
    near = drawn["near overflow"]
    assert 1e34 < np.abs(near @ near.T).max() < 1e37
    assert 0 < np.abs(drawn["denormals"]).max() < np.finfo(np.float32).smallest_normal
    assert np.abs(draw(argument, "denormals", 512, rng)).max() > 1, "others leave products digits"


def test_extreme_floats_hold_denormals_and_large_values_in_rows_of_their_own() -> None:
    argument = Argument("A", (64, 32), "float32", "input")
    drawn = draw(argument, "extremes", 32, np.random.default_rng(1))
    size = np.abs(drawn).max(axis=1)
    smallest = np.abs(drawn)[drawn != 0].min()
    assert smallest < np.finfo(np.float32).smallest_normal
    assert (size > 1e8).any()
    assert (size < 1e-36).any()
    assert np.isfinite(drawn).all()


def test_later_arguments_have_columns_of_denormals_and_huge_values_of_their_own() -> None:
    argument = Argument("B", (64, 32), "float32", "input")
    rng = np.random.default_rng(1)
    size = np.abs(draw(argument, "extremes", 32, rng)).max(axis=0)
    tiny = size < 1e-36
    assert 0 < tiny.sum() < 32
    assert (size[~tiny] > 1e8).any()
    assert np.abs(draw(argument, LATER, 32, rng)).max() > 1e33
    assert np.abs(draw(argument, LATER, 32, rng, leading=True)).max() < 10
    for shape in ((64, 1), (64,)):  # no column, or not all of them
        column = replace(argument, shape=shape)
        sizes = [np.abs(draw(column, "extremes", 32, rng)).max() for _ in range(20)]
        assert max(sizes) > 1e5


class Hopeless(FormulaProblem):
    """Overflows on what is near overflow."""

    reduction = 4
    fingerprint = ""

    def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
        return {"C": operands["A"] * operands["A"] * 8.0 * operands["A"]}


SQUARE = Workload(
    "w",
    "host-c",
    (Argument("A", (8, 32), "float32", "input"), Argument("C", (8, 32), "float32", "output")),
    1,
)


def test_every_distribution_is_compared_but_those_on_which_float32_fails() -> None:
    cases = Cases(SQUARE, Hopeless(), 1)
    assert list(cases.omissions) == ["near overflow", "denormals", "huge values"]
    assert "float32 itself is 100.0%" in cases.omissions["denormals"]
    assert "overflows in C" in cases.omissions["near overflow"]
    numbers = cases.compared(3)
    drawn = [cases[n].check.distribution for n in numbers]
    known = distributions(SQUARE.arguments)
    assert set(FLOAT_DISTRIBUTIONS) - set(known) == {LATER}, "there is one input only"
    assert drawn == [name for name in known if name not in cases.omissions]
    twice = cases.compared(2 * len(drawn))
    assert len({cases[n].check.seed for n in twice}) == len(twice) == 2 * len(drawn)
    assert [cases[n].check.distribution for n in twice] == drawn * 2
    assert cases.compared(len(drawn) + 1)[:-1] == numbers


@pytest.mark.parametrize("sampled", [False, True])
def test_the_formula_is_computed_once_for_honest_errors_and_expected_outputs(
    sampled: bool,
) -> None:
    calls = 0

    class Counting(FormulaProblem):
        reduction = 4
        fingerprint = ""

        def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
            nonlocal calls
            calls += 1
            a = operands["A"]
            return {"C": np.exp(a) / (1.0 + a.sum(axis=1, keepdims=True) ** 2) - np.sqrt(abs(a))}

        def sample(self, operands: Mapping[str, Array], rng: np.random.Generator) -> Any:
            return {"A": operands["A"][:4]} if sampled else operands

    workload = Workload(
        "w",
        "host-c",
        (Argument("A", (64, 64), "float32", "input"), Argument("C", (64, 64), "float32", "output")),
        1,
    )
    known, other = (Cases(workload, Counting(), 1)[0] for _ in range(2))
    _ = known.honest
    before = calls
    kept = known.expected["C"]
    assert calls == before + sampled
    alone = other.expected["C"]
    assert isinstance(kept, TrackedArray)
    assert isinstance(alone, TrackedArray)
    assert not kept.results
    np.testing.assert_array_equal(kept.exact, alone.exact)
    np.testing.assert_array_equal(kept.deviation, alone.deviation)


def test_where_float32_fails_everywhere_the_task_is_refused() -> None:
    class Nothing(Hopeless):
        def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
            return {"C": (operands["A"] + 1e60) * 1e60}

    cases = Cases(SQUARE, Nothing(), 1)
    with pytest.raises(
        WorkloadError, match=r"float32 arithmetic gives no result .*, choose inputs on which"
    ):
        cases.compared(3)
    with pytest.raises(WorkloadError, match="float32 arithmetic gives no result"):
        _ = cases.first


def test_timed_runs_have_inputs_of_their_own_of_the_first_distribution() -> None:
    cases = Cases(SQUARE, Hopeless(), 1)
    known = {cases[n].check.seed for n in cases.compared(3)}
    timed = [cases.timed(session) for session in range(3)]
    assert len(known | {case.check.seed for case in timed}) == len(known) + 3
    assert {case.check.distribution for case in timed} == {"small"}
    assert timed[0].honest is cases[0].honest


def test_timed_whole_numbers_are_neither_all_small_nor_all_large() -> None:
    """A kernel could add up small ones in 16 bits, and of large ones tell the outputs' signs."""
    argument = Argument("A", (64, 512), "int8", "input")
    out = Argument("C", (64, 64), "int8", "output")
    workload = Workload("toy:whole", "toy", (argument, out), 64)
    cases = Cases(workload, Whole(), 1)
    assert cases.timed().check.distribution == "mixed ranges"
    for case in (cases.timed(), cases.timed().redrawn(np.random.default_rng(2))):
        largest = np.abs(case.initial["A"].astype(int)).max(axis=1)
        assert 8 < (largest > 100).sum() < 56
        assert set((largest > 100) | (largest < 12)) == {True}
    one_row = draw(Argument("A", (1, 512), "int8", "input"), "mixed ranges", 512,
                   np.random.default_rng(3))  # fmt: skip
    assert np.abs(one_row.astype(int)).max() > 100


class Whole:
    reduction = 512
    fingerprint = "whole"

    def reference(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {"C": inputs["A"][:, :64]}


def test_a_float_case_names_precision_and_excess() -> None:
    case = Cases(SQUARE, Hopeless(), 1)[0]
    a = case.initial["A"]
    right = {"C": (a * a * np.float32(8) * a).tobytes()}
    assert case.mismatch(right) is None
    assert case.passed(right).precision == "float32"
    assert case.excess(right) < 1
    rough = a.astype(np.float16).astype(np.float32)
    wrong = {"C": (rough * rough * np.float32(8) * rough).tobytes()}
    assert re.search(r"elements of C differ, first at C\[.*got .* expected", case.mismatch(wrong))
    assert case.excess(wrong) > 2
    first = a * a * np.float32(8) * a
    first[0] = (rough * rough * np.float32(8) * rough)[0]
    others = np.ones(a.shape, dtype=bool)
    others[0] = False
    assert case.excess({"C": first.tobytes()}) > 2
    assert case.excess({"C": first.tobytes()}, {"C": others}) < 1
    assert case.passed({"C": case.expected["C"].exact.astype(np.float32).tobytes()}).precision == (
        "exact"
    )


def test_an_integer_result_is_exact_or_wrong() -> None:
    right = bytes(range(6))
    assert case().passed({"C": right}).precision == "exact"
    assert case().excess({"C": right}) == 0
    assert case().excess({"C": right[::-1]}) == np.inf
    assert case(Tolerance(0.5)).passed({"C": right}).precision == ""
    assert case(Tolerance(0.5)).excess({"C": bytes([1, 2, 3, 4, 5, 6])}) == 2


def test_the_error_of_an_output_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []

    def count(got: np.ndarray, expected: TrackedArray) -> Error:
        counted.append(got.copy())
        return error_between(got, expected)

    monkeypatch.setattr(case_module, "error_between", count)
    case = Cases(SQUARE, Hopeless(), 1)[0]
    right = {"C": case.expected["C"].exact.astype(np.float32).tobytes()}
    assert case.mismatch(right) is None
    assert case.passed(right).precision == "exact"
    assert len(counted) == 1
    assert case.mismatch({"C": bytes(len(right["C"]))}) is not None
    assert case.mismatch(right) is None
    assert len(counted) == 3
