"""Of millions of sums a few lose more digits than any of a sample, in every honest kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tilewright.core.records import Argument, Check, Workload
from tilewright.parts import cases
from tilewright.parts.arithmetic import SINGLE, honest_ways
from tilewright.parts.case import Case
from tilewright.parts.cases import Cases
from tilewright.parts.differences import MOST_EXTREMES, beyond
from tilewright.parts.error_tracking import TrackedArray
from tilewright.parts.float_error import FACTOR, deviations, error_of, follow
from tilewright.parts.problem import Array, ProductProblem, in_orders, products_of
from tilewright.targets.trainium.problems.create import create_problem
from tilewright.targets.trainium.shapes import parse_shape

SIZE, COLUMNS, TERMS = 2048, 16, 512
ROW = 1234
"""Of which the sums must be rounded, those of all others need not; it is none of the sample."""


class Product(ProductProblem):
    """A matrix product."""

    output = "out"
    reduction = TERMS
    fingerprint = "a product"


@pytest.fixture(scope="module")
def case() -> Case:
    arguments = (
        Argument("left", (SIZE, TERMS), "float32", "input"),
        Argument("right", (TERMS, COLUMNS), "float32", "input"),
        Argument("out", (SIZE, COLUMNS), "float32", "output"),
    )
    rng = np.random.default_rng(3)
    left = rng.integers(-4, 5, (SIZE, TERMS)).astype(np.float32)
    left[ROW] = rng.standard_normal(TERMS) + 1
    right = rng.integers(1, 5, (TERMS, COLUMNS)).astype(np.float32)
    initial = {"left": left, "right": right, "out": np.zeros((SIZE, COLUMNS), np.float32)}
    workload = Workload("product", "toy", arguments, 1)
    return Case(1, Check("1", "small"), workload, initial, Product())


def in_sequence(case: Case) -> Array:
    """What an honest kernel gives that adds one product after another."""
    total = np.zeros((SIZE, COLUMNS), np.float32)
    for k in range(TERMS):
        total += case.initial["left"][:, k : k + 1] * case.initial["right"][k]
    return total


def mismatch(case: Case, got: Array) -> str | None:
    return case.mismatch({"out": got.astype(np.float32).tobytes()})


def test_few_elements_may_be_off_as_honest_results_of_their_own_are(case: Case) -> None:
    got = in_sequence(case)
    limit = case.honest["out"].allowed.largest
    off = np.abs(got - case.expected["out"].exact) / case.expected["out"].deviation  # type: ignore[union-attr]
    assert off[ROW].max() > limit, "the sample does not tell what happens in this row"
    assert mismatch(case, got) is None


def test_orders_that_are_exact_by_chance_do_not_decide(case: Case) -> None:
    """In the orders of the sample, large terms cancel before small ones are added; not in `got`."""
    large = np.repeat([4096.0, -4096.0], 128)
    small = np.random.default_rng(2).standard_normal(TERMS - len(large))
    terms = np.concatenate([large, small]).astype(np.float32)
    left = case.initial["left"].copy()
    left[ROW] = terms
    initial = {**case.initial, "left": left, "right": np.ones((TERMS, COLUMNS), np.float32)}
    lucky = Case(3, case.check, case.workload, initial, Product())
    expected = lucky.expected["out"]
    assert isinstance(expected, TrackedArray)
    got = expected.exact.astype(np.float32)
    apart = np.concatenate([terms[:128], terms[256:], terms[128:256]])
    got[ROW] = np.cumsum(apart, dtype=np.float32)[-1]
    off = np.abs(got[ROW, 0] - expected.exact[ROW, 0])
    assert off > lucky.honest["out"].allowed.largest * expected.deviation[ROW, 0]
    (alone,) = in_orders(products_of(terms[None], np.ones((1, TERMS), np.float32)), 1)
    results = follow(Product().formula, alone, honest_ways(SINGLE), SINGLE)["out"].results
    honest = max(abs(float(result.reshape(-1)[0]) - expected.exact[ROW, 0]) for result in results)
    assert off > FACTOR * honest
    assert mismatch(lucky, got) is None


def test_they_may_not_be_off_by_more(case: Case) -> None:
    got, exact = in_sequence(case), case.expected["out"].exact  # type: ignore[union-attr]
    honest = np.abs(got[ROW] - exact[ROW]).max()
    got[ROW, 3] = exact[ROW, 3] + 12 * honest
    assert "elements of out differ" in str(mismatch(case, got))
    got[ROW, 3] = np.nan
    assert mismatch(case, got) is not None


def test_an_element_that_loses_no_digits_has_the_limit_of_the_sample(case: Case) -> None:
    got, expected = in_sequence(case), case.expected["out"]
    step = 1.5 * case.honest["out"].allowed.largest * expected.deviation[7, 7]  # type: ignore[union-attr]
    got[7, 7] += np.float32(step)
    assert mismatch(case, got) is not None


def test_many_elements_beyond_the_limit_are_wrong(case: Case) -> None:
    left = case.initial["left"].copy()
    left[:MOST_EXTREMES] = left[ROW]
    many = Case(2, case.check, case.workload, {**case.initial, "left": left}, Product())
    assert mismatch(many, in_sequence(many)) is not None


@pytest.mark.parametrize("name", ["gemm-256x512x256", "conv2d-2x128x8x8x128-k3"])
def test_products_know_the_operands_of_single_elements(name: str) -> None:
    shape = parse_shape(name)
    problem: Any = create_problem(shape)
    rng = np.random.default_rng(0)
    arguments = [a for a in shape.workload("trainium").arguments if a.is_given]
    values: Mapping[str, Array] = {a.name: problem.draw(a, "mixed", rng) for a in arguments}
    exact = problem.reference(values)["out"].exact
    places = np.stack([rng.integers(0, size, 9) for size in exact.shape], axis=1)
    places[0] = 0  # a corner, where a window reaches beyond the image
    operands = problem.elements(values, "out", places)
    found = problem.formula(operands)["out"].reshape(-1)
    np.testing.assert_allclose(found, exact[tuple(places.T)], rtol=2e-2, atol=2e-2)


def test_a_root_mean_square_beyond_its_limit_is_wrong(case: Case) -> None:
    """Where no element is beyond the limit of elements, and where an honest row is."""
    expected, allowed = case.expected["out"], case.honest["out"].allowed
    assert isinstance(expected, TrackedArray)
    got = (expected.exact + 0.8 * allowed.largest * expected.deviation).astype(np.float32)
    off = deviations(got, expected)
    got = np.where(off < allowed.largest, got, expected.exact).astype(np.float32)
    found = error_of(deviations(got, expected))
    assert found.largest < allowed.largest
    assert found.rms > allowed.rms
    assert "root mean square" in str(mismatch(case, got))
    got[ROW] = in_sequence(case)[ROW]
    assert error_of(deviations(got, expected)).rms > allowed.rms
    assert "elements of out differ" in str(mismatch(case, got))


def test_large_tasks_of_one_distribution_are_compared_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kernel that leaves what an earlier run computed is right the first time."""
    shape = parse_shape("gemm-256x512x256")
    made = Cases(shape.workload("trainium"), create_problem(shape), 0)
    monkeypatch.setattr(cases, "LARGE", 1)
    numbers = made.compared(3)
    assert len(numbers) == 2
    assert len({made[number].given["lhsT"].tobytes() for number in numbers}) == 2


def test_infinity_is_right_only_where_the_exact_value_does_not_fit_the_type() -> None:
    exact = np.array([66541.0, 66541.0, 66541.0, 60000.0, np.inf, np.inf, np.nan])
    got = np.array([np.inf, 65504.0, -np.inf, np.inf, np.inf, 65504.0, np.nan], np.float16)
    wrong = beyond(got, exact, 0.02 * np.abs(exact))
    assert wrong.tolist() == [False, False, True, True, False, True, True]
