"""What honest float32 results keep to and wrong ones do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.core.records import Argument
from tilewright.core.tasks import open_task
from tilewright.parts import float_error, inputs
from tilewright.parts.arithmetic import CARELESS, DOUBLE, HAS_LONGER, HONEST
from tilewright.parts.error_tracking import narrowed
from tilewright.parts.float_error import (
    FACTOR,
    MARGIN,
    Error,
    HonestError,
    HopelessError,
    deviations,
    error_of,
    follow,
    honest_errors,
)
from tilewright.parts.problem import sampled_rows


def data(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def product(operands: Mapping[str, Any]) -> dict[str, Any]:
    return {"C": operands["A"] @ operands["B"]}


def operands(seed: int, m: int, n: int, k: int) -> dict[str, np.ndarray]:
    return {"A": data(seed, m, k), "B": data(seed + 1, k, n)}


def honest(m: int, n: int, k: int, seed: int = 5) -> HonestError:
    seeds = iter(range(seed, seed + 100, 2))
    return honest_errors(product, lambda: operands(next(seeds), m, n, k))["C"]


def excess(got: np.ndarray, drawn: Mapping[str, np.ndarray], allowed: Error) -> float:
    return error_of(deviations(got, follow(product, drawn)["C"])).over(allowed)


def in_any_order(a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """a @ b in float32, the products of each sum in random order, in groups of random size."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    order = rng.permutation(a.shape[1])
    for group in np.array_split(order, rng.integers(1, len(order) + 1)):
        part = np.zeros_like(total)
        for k in group:
            part += a[:, k : k + 1] * b[k]
        total += part
    return total


@settings(max_examples=60)
@given(
    st.sampled_from([(1, 1), (1, 7), (5, 6), (20, 16)]),
    st.integers(1, 200),
    st.integers(0, 2**32 - 1),
)
def test_a_product_in_any_order_is_allowed(shape: tuple[int, int], k: int, seed: int) -> None:
    drawn = operands(seed, *shape, k)
    got = in_any_order(drawn["A"], drawn["B"], np.random.default_rng(seed))
    assert excess(got, drawn, honest(*shape, k, seed).allowed) <= 1


@pytest.mark.parametrize("k", [16, 512, 8192])
@pytest.mark.parametrize("name", ["bf16 inputs", "fp16 inputs", "skipped terms"])
def test_wrong_products_are_not(name: str, k: int) -> None:
    drawn = operands(77, 16, 16, k)
    got = follow(product, drawn, [CARELESS[name]])["C"].results[0]
    allowed = honest(16, 16, k).allowed
    assert excess(got, drawn, allowed) > MARGIN
    assert excess(np.zeros_like(got), drawn, allowed) > MARGIN


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_one_wrong_element_is_enough(wrong: float) -> None:
    drawn = operands(77, 16, 16, 64)
    got = drawn["A"] @ drawn["B"]
    allowed = honest(16, 16, 64).allowed
    assert excess(got, drawn, allowed) <= 1
    for value in (wrong, got[3, 4] + np.float32(1e-3)):
        changed = got.copy()
        changed[3, 4] = value
        assert excess(changed, drawn, allowed) > 1


def test_an_error_of_all_elements_counts_where_none_is_far_off_alone() -> None:
    allowed = HonestError(Error(1.0, 10.0)).allowed
    assert Error(3.9, 30.0).over(allowed) < 1
    assert Error(4.1, 30.0).over(allowed) > 1
    assert Error(3.9, 41.0).over(allowed) > 1


def test_outputs_of_few_elements_are_drawn_often() -> None:
    """One product of three terms may be exact by chance; that is no measure of what is honest."""
    calls = 0

    def draw() -> dict[str, np.ndarray]:
        nonlocal calls
        calls += 1
        return operands(calls, 1, 1, 3)

    honest_errors(product, draw)
    assert calls > 10
    calls = 0
    honest_errors(product, lambda: {**draw(), **operands(calls, 32, 32, 3)})
    assert calls == 1


def rows_of_one_value(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The operands of a product with a column-major matrix, whose outputs are all equal."""
    columns = rng.standard_normal((128, 1)), rng.standard_normal(1), rng.standard_normal(1)
    a, x, y = columns
    shapes = (128, 128), (128,), (128,)
    return {
        n: np.broadcast_to(v, shape) for n, v, shape in zip("axy", (a, x, y), shapes, strict=True)
    }


def scaled_product(operands: Mapping[str, Any]) -> dict[str, Any]:
    return {"y": 1.5 * (operands["a"].T @ operands["x"]) + 1.2 * operands["y"]}


def as_in_reference_blas(operands: Mapping[str, np.ndarray]) -> np.ndarray:
    total = 1.2 * operands["y"]
    for a, x in zip(operands["a"], operands["x"], strict=True):
        total = total + (1.5 * x) * a
    return total


@pytest.mark.skipif(not HAS_LONGER, reason="long double is no longer than double")
def test_equal_elements_are_drawn_often() -> None:
    worst = 0.0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        drawn = [rows_of_one_value(rng)]
        first = drawn[0]

        def draw(drawn: list[Any] = drawn, rng: np.random.Generator = rng) -> Mapping[str, Any]:
            return drawn.pop() if drawn else rows_of_one_value(rng)

        allowed = honest_errors(scaled_product, draw, DOUBLE)["y"].allowed
        exact = follow(scaled_product, first, (), DOUBLE)["y"]
        got = error_of(deviations(as_in_reference_blas(first), exact))
        worst = max(worst, got.over(allowed))
    assert worst < 1


def test_similar_elements_of_large_outputs_are_drawn_a_few_times() -> None:
    calls = 0

    def draw() -> dict[str, np.ndarray]:
        nonlocal calls
        calls += 1
        return {"a": np.full((512, 1024), np.float32(calls) / 3), "x": data(calls, 1024)}

    honest_errors(lambda o: {"y": o["a"] @ o["x"]}, draw)
    assert calls == 4


def test_a_value_that_needs_few_digits_does_not_set_the_error_of_lower_classes() -> None:
    """300 elements of one value are one draw: that of 1 x 1 has no error in any class."""
    first = np.float32(1.0)  # both measures begin with it
    values = iter([first, first, *np.linspace(0.9, 1.9, 40, dtype=np.float32)])

    def draw() -> dict[str, np.ndarray]:
        value = next(values)
        return {"A": np.full((1, 1), value), "B": np.ones((1, 300), np.float32)}

    assert honest_errors(product, draw)["C"].coarser["tf32-like"].rms == 0.0
    found = honest_errors(product, draw, only_different=True)["C"]
    assert found.coarser["tf32-like"].rms > 100
    assert found.coarser["bf16-like"].rms > 2 * found.permitted("tf32-like").rms / FACTOR


def test_precision_classes_are_told_apart_by_their_errors() -> None:
    found = honest(16, 16, 256)
    assert list(found.coarser) == ["tf32-like", "bf16-like"]
    assert found.precision(found.error) == "float32"
    for name, error in found.coarser.items():
        assert found.precision(error) == name
    assert found.precision(Error(1e9, 1e9)) == "coarser than bf16"


def test_there_is_no_class_where_rounded_inputs_make_no_difference() -> None:
    whole = {"A": np.ones((8, 8), np.float32), "B": np.ones((8, 8), np.float32)}
    found = honest_errors(product, lambda: whole)["C"]
    assert found.precision(Error(0.0, 0.0)) == ""


@pytest.mark.parametrize(
    ("scale", "reason"),
    [(1e30, "overflows in C"), (np.inf, "returns NaN for C")],
)
def test_inputs_on_which_float32_fails_are_named(scale: float, reason: str) -> None:
    with pytest.raises(HopelessError, match=reason):
        honest_errors(
            product, lambda: {n: np.float32(scale) * a for n, a in operands(1, 8, 8, 8).items()}
        )


def test_results_without_digits_are_no_measure() -> None:
    def cancelled(given: Mapping[str, Any]) -> dict[str, Any]:
        return {"C": (given["A"] + 1e9) - 1e9}

    with pytest.raises(HopelessError, match=r"error of float32 itself is .*% in C"):
        honest_errors(cancelled, lambda: {"A": data(1, 300)})


def test_results_that_differ_less_than_rounding_allows_are_no_measure() -> None:
    """Softmax of scores of 1e7: one weight is 1 exactly in every arithmetic, by luck."""

    def attention(given: Mapping[str, Any]) -> dict[str, Any]:
        scores = given["Q"] @ given["K"].T
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return {"O": weights @ given["V"] / weights.sum(-1, keepdims=True)}

    drawn = {name: data(i, 64, 32) + np.float32(1000) for i, name in enumerate("QKV")}
    with pytest.raises(HopelessError, match="as large as the differences between elements of O"):
        honest_errors(attention, lambda: drawn)


def test_a_maximum_may_not_have_the_errors_of_values_that_are_far_from_it() -> None:
    """In every second row, there are also large negative values."""

    def largest(given: Mapping[str, Any]) -> dict[str, Any]:
        products, factors = given["A"] @ given["B"], given["far"]
        return {"C": np.max(np.concatenate([products, -abs(products) * factors], 1), axis=1)}

    def drawn(seed: int) -> dict[str, np.ndarray]:
        far = np.where(np.arange(64)[:, None] % 2, np.float32(1e4), np.float32(0))
        return {**operands(seed, 64, 32, 16), "far": far}

    seeds = iter(range(100))
    allowed = honest_errors(largest, lambda: drawn(next(seeds)))["C"].allowed
    expected = follow(largest, drawn(101))["C"]
    right = largest(drawn(101))["C"]
    assert error_of(deviations(right, expected)).over(allowed) < 1
    right[1::2] *= np.float32(1 + 2.0**-9)
    assert error_of(deviations(right, expected)).over(allowed) > 1


def test_inputs_that_a_narrower_type_holds_are_not_rounded_by_it() -> None:
    values = np.array([1.0, 1.0 + 2.0**-6, 1.0 + 2.0**-12], np.float32)
    found = follow(lambda given: {"B": narrowed(given["A"], 8)}, {"A": values})["B"]
    assert (found.deviation[:2] < 1e-30).all()
    assert found.deviation[2] > 2.0**-9


def test_errors_counted_in_blocks_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = operands(3, 20, 30, 40)
    expected = follow(product, drawn)["C"]
    got = (drawn["A"] @ drawn["B"]).astype(np.float32)
    whole = error_of(deviations(got, expected))
    monkeypatch.setattr(float_error, "_BLOCK", 7)
    assert float_error.error_between(got, expected).rms == pytest.approx(whole.rms)
    assert float_error.error_between(got, expected).largest == whole.largest
    got[13, 5] = np.nan
    assert float_error.error_between(got, expected).largest == np.inf


def test_a_naive_sum_of_many_positive_numbers_is_honest() -> None:
    """Its error is many times that of sums by blocks, and a starting kernel may well have it."""
    rng = np.random.default_rng(3)
    drawn = {"A": rng.random((4, 20000), np.float32), "B": rng.random((20000, 4), np.float32)}
    found = honest_errors(product, lambda: drawn)["C"]
    terms = drawn["A"][:, None, :] * drawn["B"].T[None]
    naive = np.add.accumulate(terms, axis=-1, dtype=np.float32)[..., -1]
    assert excess(naive, drawn, found.allowed) < 1
    by_halves = follow(product, drawn, [HONEST[-1]])["C"].results[0]
    assert excess(naive, drawn, found.allowed) > 8 * excess(by_halves, drawn, found.allowed)


def test_a_sample_has_the_rows_with_the_smallest_and_the_largest_values() -> None:
    """If float32 fails on some rows of a case, it fails on these, whatever the seed is."""
    rows = np.ones((256, 4096), np.float32)
    rows[100], rows[7] = 1e-30, -1e30
    for seed in range(3):
        sample = sampled_rows(rows, np.random.default_rng(seed))
        assert {float(row[0]) for row in sample} == {1.0, float(rows[100, 0]), float(rows[7, 0])}


@pytest.mark.slow
def test_a_distribution_is_left_out_for_every_seed_or_none() -> None:
    omitted = set()
    for seed in range(3):
        task = open_task("host-c:rmsnorm-256x4096", {"input_seed": seed}).task
        omitted.add(tuple(sorted(task.omissions())))
    assert len(omitted) == 1


def test_outliers_lie_anywhere() -> None:
    argument = Argument("A", (64, 1024), "float32", "input")
    places = []
    for seed in range(3):
        drawn = inputs.draw(argument, "outliers", 1024, np.random.default_rng(seed))
        places.append(np.argwhere(np.abs(drawn) > 50))
        assert np.abs(drawn)[np.abs(drawn) > 50].min() >= 1000  # never near the others
        assert 20 <= len(places[-1]) <= 70
        assert np.abs(np.median(drawn)) < 0.1
    assert not np.array_equal(places[0], places[1])
    assert {tuple(p) for p in places[0]} & {tuple(p) for p in places[2]} == set()


def test_a_result_may_be_one_number() -> None:
    followed = follow(lambda o: {"loss": np.sum(o["x"])}, {"x": data(3, 64)})["loss"]
    assert np.shape(deviations(np.float32(followed.exact), followed)) == ()
    assert deviations(np.array(np.nan, np.float32), followed) == np.inf
