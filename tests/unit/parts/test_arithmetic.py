"""Orders of sums, and shortcuts that cost digits."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.parts.arithmetic import CARELESS, HONEST, Arithmetic, products, rounded
from tilewright.targets.amx.elements import bf16_bits, bf16_values


def data(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def one_by_one(terms: np.ndarray) -> np.float32:
    total = np.float32(0)
    for term in terms:
        total = np.float32(total + term)
    return total


def in_halves(terms: np.ndarray) -> np.float32:
    """For a power of two."""
    while len(terms) > 1:
        terms = terms[: len(terms) // 2] + terms[len(terms) // 2 :]
    return np.float32(terms[0])


def test_each_order_is_the_one_that_it_is_called() -> None:
    terms = data(1024)
    found = {way.order: way.total(terms, 0) for way in HONEST}
    assert found["sequential"] == one_by_one(terms)
    assert found["backwards"] == one_by_one(terms[::-1])
    assert found["64-way"] == one_by_one(np.array([one_by_one(terms[i::64]) for i in range(64)]))
    assert found["pairwise"] == in_halves(terms)
    assert len({float(total) for total in found.values()}) == 4


@pytest.mark.parametrize("count", [45, 200])
def test_terms_after_the_last_whole_group_of_64_are_added_to_their_lanes(count: int) -> None:
    terms = data(count)
    lanes = np.array([one_by_one(terms[i::64]) for i in range(64)])
    assert Arithmetic("64-way", "64-way").total(terms, 0) == one_by_one(lanes)


def product(way: Arithmetic, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return products([way], [left], [right])[0]


@pytest.mark.parametrize("way", HONEST, ids=lambda way: way.name)
@pytest.mark.parametrize("terms", [1, 2, 63, 64, 65, 200])
def test_a_product_sums_its_terms_in_that_order(way: Arithmetic, terms: int) -> None:
    left, right = data(3, terms), data(terms, 4, seed=2)
    found = product(way, left, right)
    for i in range(3):
        for j in range(4):
            assert found[i, j] == way.total(left[i] * right[:, j], 0)
    assert (product(way, left[0], right) == found[0]).all()
    assert (product(way, left, right[:, 0]) == found[:, 0]).all()


def test_ways_share_products_only_if_they_have_the_same_operands() -> None:
    left, right, other = data(2, 3, 200), data(200, 4, seed=2), data(200, 4, seed=3)
    ways = [*HONEST, *CARELESS.values()]
    rights = [right, right, other, right, *[right] * len(CARELESS)]
    found = products(ways, [left] * len(ways), rights)
    for way, result, own in zip(ways, found, rights, strict=True):
        assert result.tobytes() == product(way, left, own).tobytes(), way.name


def test_rounding_is_that_of_the_types_it_stands_for() -> None:
    values = data(1000)
    assert (rounded(values, 8) == bf16_values(bf16_bits(values))).all()
    assert (rounded(values, 11) == values.astype(np.float16)).all()
    assert rounded(values, 24) is values
    assert np.isinf(rounded(np.array([np.inf], np.float32), 8)).all()


def test_shortcuts_do_what_they_are_called() -> None:
    terms = np.arange(1, 33, dtype=np.float32)
    assert CARELESS["skipped terms"].total(terms, 0) == terms[:30].sum()
    assert CARELESS["half the sum, doubled"].total(terms, 0) == 2 * terms[:16].sum()
    assert CARELESS["skipped terms"].total(terms[:1], 0) == 1
    assert CARELESS["bf16 inputs"].given(np.array([1 + 2**-9]))[0] == 1
    quotient = CARELESS["rough functions"].elementwise(np.divide, terms, np.float32([3.0]))
    assert (quotient == rounded(terms / np.float32(3), 12)).all()
    assert (CARELESS["rough functions"].elementwise(np.add, terms, terms) == 2 * terms).all()


@pytest.mark.parametrize("way", HONEST, ids=lambda way: way.name)
@pytest.mark.parametrize(("rows", "terms"), [(40, 130), (280, 130), (280, 45)])
def test_many_sums_side_by_side_are_those_one_by_one(
    way: Arithmetic, rows: int, terms: int
) -> None:
    chance = np.random.default_rng(3)
    left = chance.normal(size=(2, rows, terms)) * 10.0 ** chance.integers(-5, 5, terms)
    left = left.astype("f4")
    right = chance.normal(size=(terms, 30)).astype("f4")
    right[chance.random(right.shape) < 0.1] = -0.0
    left[0, 0] = 1.0
    right[:, 0] = -0.0
    found = product(way, left, right)
    assert found.shape == (2, rows, 30)
    for at in list(np.ndindex(2, rows))[:: rows // 10]:
        one = np.concatenate([product(way, left[at][None], right[:, n : n + 1]) for n in range(30)])
        assert found[at].tobytes() == one.tobytes(), at
    wide = chance.normal(size=(70, 600)).astype("f4")
    totals = np.array([way.total(wide[:, n], 0) for n in range(600)])
    assert way.total(wide, 0).tobytes() == totals.tobytes()
