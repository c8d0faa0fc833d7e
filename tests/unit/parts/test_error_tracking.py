"""Arrays that are followed: the same formulas, several arithmetics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tilewright.parts.arithmetic import CARELESS, HONEST, SINGLE
from tilewright.parts.error_tracking import TrackedArray, narrowed, stored

RNG = np.random.default_rng(3)
X = RNG.standard_normal((6, 40)).astype(np.float32)
Y = RNG.standard_normal((40, 5)).astype(np.float32)
LIBRARY = (CARELESS["bf16 inputs"],)


def images(kernel: np.ndarray, image: np.ndarray) -> Any:
    """A convolution as many write it: one product for each tap."""
    total = np.zeros((4, 4, 1))
    for r in range(3):
        for t in range(3):
            total += image[r : r + 4, t : t + 4, None] * kernel[r, t]
    return total


FORMULAS: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda x, y: x @ y,
    "dot": lambda x, y: np.dot(x, y),
    "dot of vectors": lambda x, y: x[0].dot(y[:, 0]).reshape(1),
    "softmax": lambda x, y: np.exp(x - x.max(1, keepdims=True)) / np.exp(x).sum(1, keepdims=True),
    "layernorm": lambda x, y: (x - x.mean(-1, keepdims=True)) / np.sqrt(np.var(x, -1)[:, None]),
    "means": lambda x, y: np.mean(x, axis=0) + x.std() + np.sum(x) - np.min(x, axis=0),
    "converted": lambda x, y: x.astype(np.float64) @ y.astype(np.float64),
    "clipped": lambda x, y: np.where(x > 0.5, 0.5, np.maximum(x, -0.5)) * 2,
    "moved": lambda x, y: np.concatenate([x.T, np.ones((40, 1)), y], axis=1)[::2],
    "stacked": lambda x, y: np.stack([x[0], np.roll(x[1], 1), y[:, 0]]),
    "in place": lambda x, y: images(y[:3, :3], x[:, :6]),
    "assigned": lambda x, y: _with_a_row(x.copy(), y[:, 0]),
    "other functions": lambda x, y: np.tanh(x) + 1 / (1 + np.exp(-x)) + np.log(np.square(x)),
    "largest so far": lambda x, y: np.maximum.accumulate(x * x, axis=1),
    "smallest so far": lambda x, y: np.minimum.accumulate(x @ y, axis=0),
    "einsum of each axis": lambda x, y: np.einsum(
        "bij,bjk->ikb", x.reshape(2, 3, 40), np.stack([y, y + 1])
    ),
    "einsum of a number": lambda x, y: np.einsum("ij , i k -> ", x, x).reshape(1),
    "einsum of one array": lambda x, y: np.einsum("ij->j", x) + np.einsum("ij->ji", y)[0],
    "running sums": lambda x, y: np.cumsum(x, axis=0) + np.cumsum(x).reshape(6, 40),
    "sorted": lambda x, y: np.sort(x * x + x) + np.sort(x, axis=0),
    "split": lambda x, y: np.split(x, 2)[1] - np.split(x, 2)[0],
}


def _with_a_row(x: Any, row: Any) -> Any:
    x[2] = row
    return x


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_gives_what_it_gives_for_plain_arrays(name: str) -> None:
    followed = FORMULAS[name](TrackedArray.given(X, HONEST), TrackedArray.given(Y, HONEST))
    exact = FORMULAS[name](X.astype(np.float64), Y.astype(np.float64))
    assert isinstance(followed, TrackedArray)
    assert followed.shape == exact.shape
    assert np.allclose(followed.exact, exact, rtol=1e-12, atol=1e-12)
    for result in followed.results:
        assert result.dtype == np.float32
        assert np.allclose(result, exact, rtol=1e-4, atol=1e-4)
    off = [np.abs(r - followed.exact) / followed.deviation for r in followed.results]
    assert all(float(np.sqrt(np.mean(each**2))) < 4 for each in off)


def test_deviations_are_those_of_one_rounding_each() -> None:
    one = TrackedArray.given(np.ones(1))
    assert (one + one).deviation == pytest.approx(2 * SINGLE.unit_roundoff)
    assert ((one + one) - 2.0).deviation == pytest.approx(2 * SINGLE.unit_roundoff)
    assert (-one).deviation == SINGLE.smallest
    assert (one @ one.reshape(1, 1)).deviation == pytest.approx(SINGLE.unit_roundoff * 2**0.5)


def test_deviations_carry_those_of_all_operands() -> None:
    rough = TrackedArray(np.ones(1), np.full(1, 0.01), [], ())
    one = TrackedArray.given(np.ones(1))
    assert (rough * one).deviation == pytest.approx(0.01)
    assert (one / rough).deviation == pytest.approx(0.0099, rel=1e-2)
    assert (rough / rough).deviation == pytest.approx(0.01 * 2**0.5, rel=1e-2)
    assert (rough - rough).deviation == pytest.approx(0.01 * 2**0.5)
    assert (rough.reshape(1, 1) @ one).deviation == pytest.approx(0.01)
    assert (one.reshape(1, 1) @ rough).deviation == pytest.approx(0.01)
    assert np.exp(rough).deviation == pytest.approx(0.01 * np.e, rel=1e-2)
    assert np.maximum(rough, 0.5).deviation == pytest.approx(0.01)
    assert (rough.sum() + one).deviation == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("other", "deviation"), [(0.98, 0.01), (1.0, 0.01), (1.02, 0.006), (1.049, 0.0002), (1.06, 0.0)]
)
def test_a_smaller_value_may_become_the_maximum_by_its_error(
    other: float, deviation: float
) -> None:
    rough = TrackedArray(np.ones(1), np.full(1, 0.01), [], ())
    assert np.maximum(rough, other).deviation == pytest.approx(deviation, abs=1e-9)
    assert np.minimum(rough * -1, -other).deviation == pytest.approx(deviation, abs=1e-7)
    both = TrackedArray(np.array([1.0, other]), np.array([0.01, 0.0]), [], ())
    assert both.max().deviation == pytest.approx(deviation, abs=1e-9)
    assert (both * -1).min().deviation == pytest.approx(deviation, abs=1e-7)
    assert np.maximum.accumulate(both).deviation[1] == pytest.approx(deviation, abs=1e-9)


def test_infinite_values_and_no_values_add_no_deviation_to_a_maximum() -> None:
    rough = TrackedArray(np.array([np.inf, -np.inf, np.nan, 1.0]), np.full(4, 0.01), [], ())
    assert np.maximum(rough, np.array([1.0, 1.0, 1.0, np.inf])).deviation[1:].max() <= 1e-9
    assert rough[:2].max().deviation <= 1e-9
    assert rough[[1, 3]].max().deviation == pytest.approx(0.01)


def test_the_largest_so_far_has_the_deviation_of_its_element() -> None:
    values = TrackedArray.given(np.array([[1.0, 3.0, 2.0, 5.0]], np.float32), HONEST)
    scaled = values * TrackedArray.given(np.array([[1.5, 1.5, 1e-6, 1.5]], np.float32), HONEST)
    found = np.maximum.accumulate(scaled, axis=1)
    assert found.deviation == pytest.approx(scaled.deviation[:, [0, 1, 1, 3]])


def test_tiny_and_large_elements_have_deviations_of_their_own() -> None:
    scales = np.array([[1e-30], [1.0], [1e15]])
    product = TrackedArray.given(X[:3] * scales) @ TrackedArray.given(Y)
    spread = product.deviation.max(axis=1)
    assert (spread[1:] / spread[:-1] > 1e10).all()


def test_one_pass_variances_are_those_of_their_way_alone() -> None:
    ways = (HONEST[0], CARELESS["one-pass variance"])
    honest, careless = TrackedArray.given(X + np.float32(1000), ways).var(-1).results
    exact = (X + np.float32(1000)).astype(np.float64).var(-1)
    assert np.abs(honest - exact).max() < 1e-3
    assert np.abs(careless - exact).max() > 1e-2


@pytest.mark.parametrize(
    "lost",
    [
        np.asarray,
        lambda x: x.astype(np.int8),
        lambda x: np.einsum("ij,ik,il->", x, x, x),
        lambda x: np.einsum("ij,kj", x, x),
        lambda x: np.einsum("ii->i", x[:, :6]),
        lambda x: np.einsum("ij,ik->ijk", x, x[:1]),
        lambda x: np.einsum(x, [0, 1], x, [0, 2], [1, 2]),
        lambda x: np.add.accumulate(x),
        lambda x: np.linalg.inv(x @ x.T),
        lambda x: np.add.at(np.zeros(40), 0, x[0]),
        float,
    ],
)
def test_what_cannot_be_followed_is_an_error(lost: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError):
        lost(TrackedArray.given(X, HONEST))


@pytest.mark.parametrize("name", FORMULAS)
def test_values_alone_are_bit_identical_and_have_no_deviation(name: str) -> None:
    exact = replace(SINGLE, rounds=False)
    whole = FORMULAS[name](TrackedArray.given(X), TrackedArray.given(Y))
    alone = FORMULAS[name](TrackedArray.given(X, (), exact), TrackedArray.given(Y, (), exact))
    assert alone.exact.tobytes() == whole.exact.tobytes()
    assert alone._deviation is None


@pytest.mark.parametrize(
    "change", [lambda v: narrowed(v @ Y, 8), lambda v: stored(v @ Y, "float16")]
)
def test_values_of_narrower_types_have_no_deviation_alone(change: Callable[[Any], Any]) -> None:
    exact = replace(SINGLE, rounds=False)
    alone = change(TrackedArray.given(X, (), exact))
    assert alone.exact.tobytes() == change(TrackedArray.given(X)).exact.tobytes()
    assert alone._deviation is None


@pytest.mark.parametrize("function", [np.add, np.multiply, np.divide, np.maximum])
def test_an_array_used_twice_has_the_deviation_of_two_equal_arrays(function: np.ufunc) -> None:
    one = TrackedArray(X, np.abs(X) * 1e-6, (), ())
    assert np.array_equal(function(one, one).deviation, function(one, one.copy()).deviation)


def test_a_product_carries_the_errors_of_both_operands() -> None:
    errors = np.array([1e-3]), np.array([1e-2])
    left, right = (TrackedArray(np.array([2.0]), error, (), ()) for error in errors)
    np.testing.assert_allclose((left * right).deviation, np.hypot(2e-3, 2e-2), rtol=1e-4)


def test_no_deviation_is_zero_after_an_assignment() -> None:
    values = TrackedArray(np.ones(2), np.ones(2), (), ())
    assert values.deviation.min() == 1
    values[0] = 3.0
    assert values.deviation.tolist() == [values.format.smallest, 1]


def test_ways_that_round_in_the_same_way_share_results_until_a_sum() -> None:
    values = np.random.default_rng(1).normal(size=(4, 100)).astype("f4")
    ways = (*HONEST, *CARELESS.values())
    found = np.pad(np.exp(TrackedArray.given(values, ways)) * 2.0, ((0, 0), (1, 1))).T
    assert len({id(result) for result in found.results[: len(HONEST)]}) == 1
    for way, result in zip(ways, found.results, strict=True):
        own = way.elementwise(np.multiply, way.elementwise(np.exp, way.given(values)), way.held(2))
        assert result[1:-1].T.tobytes() == own.tobytes(), way.name
    assert len({result.tobytes() for result in found.sum(0).results[: len(HONEST)]}) == 4
